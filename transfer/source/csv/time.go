package csv

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/model"
)

// Clock reads times that are texts or numbers.
type Clock struct {
	unit   int64  // of numbers; 0: numbers are no times
	texts  bool   // dates as in RFC 3339 are times
	layout string // of package time, in place of both
	zone   *time.Location
}

// units are the names of units that numbers can have.
var units = []struct {
	name string
	unit int64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}

// newClock returns the clock of a format: a unit, rfc3339, or a layout.
func newClock(format string, zone *time.Location) (Clock, error) {
	for _, u := range units {
		if u.name == format {
			return Clock{unit: u.unit, zone: zone}, nil
		}
	}
	if strings.EqualFold(format, "rfc3339") || strings.EqualFold(format, "rfc3339nano") {
		return Clock{texts: true, zone: zone}, nil
	}
	if !strings.Contains(format, "06") { // no year
		return Clock{}, fmt.Errorf("time format %q is none of rfc3339, ns, us, ms, s, m, h, and no layout such as %q", format, "2006-01-02 15:04:05")
	}
	return Clock{layout: format, zone: zone}, nil
}

// NewClock returns a clock of a format as in Options.TimeFormat and of a zone as in
// Options.Timezone.
func NewClock(format, timezone string) (c Clock, err error) {
	zone := time.UTC
	if timezone != "" {
		if zone, err = loadZone(timezone); err != nil {
			return c, err
		}
	}
	return newClock(format, zone)
}

// String describes the format.
func (c *Clock) String() string {
	if c.layout != "" {
		return c.layout
	}
	for _, u := range units {
		if u.unit == c.unit {
			return u.name
		}
	}
	return "rfc3339"
}

// Read reads a time in nanoseconds, or returns why the text has none.
func (c *Clock) Read(cell []byte) (int64, string) {
	cell = bytes.TrimSpace(cell)
	ns, reason := int64(0), ""
	switch {
	case c.layout != "":
		at, err := time.ParseInLocation(c.layout, string(cell), c.zone)
		if err != nil {
			return 0, fmt.Sprintf("%q is not a time of the layout %q", short(cell), c.layout)
		}
		ns, reason = nanoseconds(at)
	case c.texts && isDate(cell):
		ns, reason = readDate(cell, c.zone)
	case c.unit > 0:
		ns, reason = readNumber(cell, c.unit)
	default:
		reason = "is not a time of RFC 3339"
	}
	if reason == "" && (ns < model.MinTime || ns > model.MaxTime) {
		reason = "is out of the range of times"
	}
	if reason != "" {
		return 0, fmt.Sprintf("%q %s", short(cell), reason)
	}
	return ns, ""
}

func isDate(b []byte) bool { return len(b) >= 10 && b[4] == '-' && b[7] == '-' }

// nanoseconds returns a time as a number, and a reason if it has none.
func nanoseconds(at time.Time) (int64, string) {
	if at.Before(time.Unix(0, model.MinTime)) || at.After(time.Unix(0, model.MaxTime)) {
		return 0, "is out of the range of times"
	}
	return at.UnixNano(), ""
}

// readNumber reads a number of units since 1970, with or without a fraction and an
// exponent. It drops what is below a nanosecond.
func readNumber(b []byte, unit int64) (int64, string) {
	whole, fraction, _ := bytes.Cut(b, []byte{'.'})
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		ok := false
		if whole, fraction, ok = shift(b[:i], b[i+1:]); !ok {
			return 0, "is not a number"
		}
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil {
		return 0, "is not a number"
	}
	ns := n * unit
	if ns/unit != n {
		return 0, "is out of the range of times"
	}
	more, scale := int64(0), unit
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, "is not a number"
		}
		if scale%10 == 0 {
			scale /= 10
			more += int64(c-'0') * scale
		}
	}
	if whole[0] == '-' {
		more = -more
	}
	if sum := ns + more; sum >= ns == (more >= 0) {
		return sum, ""
	}
	return 0, "is out of the range of times"
}

// noughts are as many as the exponent of a time may have at most. Beyond it a time is 0 or
// out of the range.
const noughts = "000000000000000000000000000000"

// shift moves the decimal point of a number by an exponent. It rounds no digit.
func shift(number, exponent []byte) (whole, fraction []byte, ok bool) {
	by, err := strconv.Atoi(string(exponent))
	if err != nil || by < -len(noughts) || by > len(noughts) {
		return nil, nil, false
	}
	digits := bytes.TrimLeft(number, "+-")
	sign := number[:len(number)-len(digits)]
	whole, fraction, _ = bytes.Cut(digits, []byte{'.'})
	if len(whole) == 0 {
		return nil, nil, false
	}
	point := len(noughts) + len(whole) + by
	digits = slices.Concat([]byte(noughts), whole, fraction, []byte(noughts))
	return slices.Concat(sign, digits[:point]), digits[point:], true
}

// readDate reads 2006-01-02, with or without 15:04:05.999 behind a T or a blank, and
// with or without Z or +01:00 behind that.
func readDate(b []byte, zone *time.Location) (int64, string) {
	const reason = "is not a time of RFC 3339"
	ok := true
	digits := func(from, to int) (n int) {
		if len(b) < to {
			ok = false
			return 0
		}
		for _, c := range b[from:to] {
			ok = ok && c >= '0' && c <= '9'
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := digits(0, 4), digits(5, 7), digits(8, 10)
	var hour, minute, second, fraction int
	rest := b[10:]
	if len(rest) > 0 {
		if len(rest) < 6 || rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' || rest[3] != ':' {
			return 0, reason
		}
		hour, minute = digits(11, 13), digits(14, 16)
		if rest = rest[6:]; len(rest) >= 3 && rest[0] == ':' {
			second = digits(17, 19)
			rest = rest[3:]
		}
		if len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') {
			scale := int(1e9)
			for rest = rest[1:]; len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'; rest = rest[1:] {
				scale /= 10
				fraction += int(rest[0]-'0') * scale
			}
			ok = ok && scale < 1e9
		}
	}
	if !ok || month < 1 || month > 12 || day < 1 || day > daysOf(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, reason
	}
	offset := 0
	switch {
	case len(rest) == 0:
		return nanoseconds(time.Date(year, time.Month(month), day, hour, minute, second, fraction, zone))
	case len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z'):
	default:
		at, err := time.Parse("-07:00", string(rest))
		if err != nil {
			if at, err = time.Parse("-0700", string(rest)); err != nil {
				return 0, reason
			}
		}
		_, offset = at.Zone()
	}
	return nanoseconds(time.Date(year, time.Month(month), day, hour, minute, second-offset, fraction, time.UTC))
}

func daysOf(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// short returns a cell as far as a message quotes it.
func short(cell []byte) []byte { return cell[:min(len(cell), 100)] }
