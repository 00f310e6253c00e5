package window

import (
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a machine may have none; all nodes are to have the same

	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// MonthLength is the longest that a month is, unless its clocks are moved.
const MonthLength = 31 * 24 * time.Hour

// calendarUnits are the units of calendar windows, in months.
var calendarUnits = []struct {
	suffix string
	months int
}{{"mo", 1}, {"q", 3}, {"y", 12}}

// CalendarMonths returns the months of a length such as 1mo, 2q or 1y, and 0
// for any other text.
func CalendarMonths(text string) int {
	for _, u := range calendarUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if n, err := strconv.ParseUint(digits, 10, 16); ok && err == nil && n > 0 && n <= 12_000 {
			return int(n) * u.months
		}
	}
	return 0
}

// String returns the windows as EVERY names them: 1h, 1mo, 1d tz('Europe/Berlin').
func (w *Windows) String() string {
	text := influxql.FormatDuration(time.Duration(w.Every))
	for _, u := range calendarUnits {
		if w.Months > 0 && w.Months%u.months == 0 {
			text = strconv.Itoa(w.Months/u.months) + u.suffix
		}
	}
	if w.Loc != nil && w.Loc != time.UTC {
		text += " tz('" + w.Loc.String() + "')"
	}
	return text
}

var locations sync.Map // of names to *time.Location

// Location returns the time zone of a name of the IANA database. It keeps what it has loaded.
func Location(name string) (*time.Location, error) {
	if loc, ok := locations.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err == nil {
		locations.Store(name, loc)
	}
	return loc, err
}

// AddMonths returns t some months later, at the same time of its zone. Of a month that is too
// short for the day it is the last day.
func AddMonths(t time.Time, months int) time.Time {
	year, month, day := t.Date()
	last := time.Date(year, month+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return t.AddDate(0, months, min(day, last)-day)
}

// SetCalendar makes w the windows of a text such as "1mo", or "1mo 4d" for
// months that begin on the fifth. GROUP BY carries it as time()'s second
// argument, where InfluxDB's grammar takes any text and its planner none, so
// that a statement prints, and is stored, as what can be read again.
func (w *Windows) SetCalendar(text string) bool {
	length, offset, shifted := strings.Cut(text, " ")
	months := CalendarMonths(length)
	if months == 0 {
		return false
	}
	var shift time.Duration
	if shifted {
		var err error
		if shift, err = influxql.ParseDuration(offset); err != nil || shift < 0 || shift >= 28*24*time.Hour {
			return false
		}
	}
	w.Months, w.Every, w.Shift = months, int64(months)*int64(MonthLength), int64(shift)
	if w.Loc == nil {
		w.Loc = time.UTC
	}
	return true
}

// month returns the start of the month that is n months after January 1970.
func (w *Windows) month(n int) int64 {
	seconds, rest := time.Duration(w.Shift)/time.Second, time.Duration(w.Shift)%time.Second
	t := time.Date(1970, time.Month(1+n), 1, 0, 0, int(seconds), int(rest), w.Loc)
	switch {
	case !t.After(time.Unix(0, model.MinTime)):
		return model.MinTime
	case !t.Before(time.Unix(0, model.MaxTime)):
		return model.MaxTime
	}
	return t.UnixNano()
}

// calendar returns the month, as in month, that begins the window with t.
func (w *Windows) calendar(t int64) int {
	year, month, _ := time.Unix(0, t).In(w.Loc).Date()
	n := (year-1970)*12 + int(month) - 1
	n -= int(FloorMod(int64(n), int64(w.Months)))
	for n += w.Months; w.month(n) > t || w.month(n) == model.MaxTime; {
		n -= w.Months
	}
	return n
}
