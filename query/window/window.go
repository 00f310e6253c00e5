package window

import (
	"errors"
	"math"
	"time"

	"tsdbd/model"
)

// ErrTooMany is the error of a query with more windows than it can hold.
var ErrTooMany = errors.New("too many GROUP BY time windows: narrow the time range or widen the interval")

// FloorMod returns the remainder of FloorDiv, which is not negative; b > 0.
func FloorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// FloorDiv returns a/b, rounded down; b > 0.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Windows cuts time into the intervals of GROUP BY time. The zero value is one
// window that holds all time.
type Windows struct {
	// Every is the length of a window in nanoseconds. Windows of calendar months have
	// the greatest length that they can have, unless clocks are moved.
	Every   int64
	Shift   int64          // the offset, in nanoseconds
	Loc     *time.Location // nil: UTC. Calendar windows have one.
	Months  int            // of calendar windows
	Refused error          // what is wrong with the offset; reported after all other errors
}

// None reports whether there is one window, which holds all time.
func (w *Windows) None() bool { return w.Every <= 0 }

// Asked reports whether the statement names an interval, though it be negative,
// which makes no windows.
func (w *Windows) Asked() bool { return w.Every != 0 }

func (w *Windows) zone(t int64) int64 {
	_, off := time.Unix(0, t).In(w.Loc).Zone()
	return int64(off) * int64(time.Second)
}

// since returns the time from the start of the window that holds t, in UTC.
func (w *Windows) since(t int64) int64 {
	return FloorMod(FloorMod(t, w.Every)-w.Shift, w.Every) // t-w.shift might overflow
}

// Start returns the start of the window that holds t. Windows are counted from
// the epoch (in the wall clock of the zone, if there is one) and moved by the
// offset. The first window of all time starts at model.MinTime.
func (w *Windows) Start(t int64) int64 {
	if w.Every <= 0 {
		return model.MinTime
	}
	if w.Months > 0 {
		return w.month(w.calendar(t))
	}
	if w.Loc == nil {
		dt := w.since(t)
		if model.MinTime+dt >= t {
			return model.MinTime
		}
		return t - dt
	}
	return w.zoned(t)
}

// zoned is start in a time zone. Windows begin where the wall clock shows a
// multiple of the interval. A time that the clock skips begins when the clock
// is moved, and of a time that comes twice only the first counts, unless the
// clock is moved by a window or more.
func (w *Windows) zoned(t int64) int64 {
	at := time.Unix(0, t).In(w.Loc)
	_, seconds := at.Zone()
	off := int64(seconds) * int64(time.Second)
	start := t - FloorMod(FloorMod(t, w.Every)+off-w.Shift, w.Every) // t+off-w.Shift might overflow
	if start <= model.MinTime || start > t {
		return model.MinTime
	}
	first, _ := at.ZoneBounds()
	if first.IsZero() || first.Unix() < model.MinTime/int64(time.Second) {
		return start
	}
	moved := first.UnixNano()
	by := off - w.zone(moved-1) // the clock was moved forward by
	switch {
	case start >= moved:
		if by < 0 && -by < w.Every && start-moved < -by {
			return start + by // the same time before the clock was moved back
		}
		return start
	case by > 0 && by < w.Every && start >= moved-by:
		return moved
	}
	return w.zoned(moved - 1)
}

// Divided reports whether all windows of [from, to] consist of whole windows of parts, whose
// offset is 0.
func (w *Windows) Divided(parts *Windows, from, to int64) bool {
	unit, every := w.Every, parts.Every
	if w.Months > 0 {
		unit = int64(24 * time.Hour)
	}
	switch {
	case w.None() || w.Shift%every != 0 && parts.Months == 0:
		return false
	case parts.Months > 0:
		return w.Months%parts.Months == 0 && w.Months > 0 && w.Shift == 0 && w.Loc.String() == parts.Loc.String()
	case unit%every != 0:
		return false
	case parts.Loc != nil:
		return w.Loc != nil && w.Loc.String() == parts.Loc.String()
	case w.Loc == nil:
		return true
	}
	// The clock of the zone is to show multiples of parts when UTC's does.
	if from > model.MinTime+w.Every {
		from -= w.Every // the first window may begin before it
	}
	for at := time.Unix(0, from).In(w.Loc); ; {
		if w.zone(at.UnixNano())%every != 0 {
			return false
		}
		_, moved := at.ZoneBounds()
		if moved.IsZero() || moved.After(time.Unix(0, to)) {
			return true
		}
		if !moved.After(at) {
			moved = at.Add(24 * time.Hour) // package time ends leap years a day early
		}
		if moved.UnixNano()%every != 0 {
			return false
		}
		at = moved
	}
}

// AfterTime lies after every time.
const AfterTime = math.MaxInt64

// Next returns the start of the window after the one that starts at start, or
// AfterTime if it is the last.
func (w *Windows) Next(start int64) int64 {
	if w.Months > 0 {
		return w.month(w.calendar(start) + w.Months)
	}
	if w.None() {
		return AfterTime
	}
	if start == model.MinTime && w.Loc == nil {
		// The first window is cut off by the start of time.
		return start + w.Every - w.since(start)
	}
	next := start + w.Every
	if next < start {
		return AfterTime
	}
	if w.Loc == nil {
		return next
	}
	s := w.Start(next)
	for d := w.Every/4 + 1; s <= start; d += w.Every/4 + 1 {
		if next > model.MaxTime-d {
			return AfterTime
		}
		s = w.Start(next + d)
	}
	for {
		between := w.Start(s - 1)
		if between <= start {
			return s
		}
		s = between
	}
}

// End returns the end of the window that holds t: the start of the next one, or AfterTime.
func (w *Windows) End(t int64) int64 {
	if w.Loc == nil && !w.None() && t < model.MaxTime-w.Every {
		return t - w.since(t) + w.Every
	}
	if end := w.Next(w.Start(t)); end > t {
		return end
	}
	return AfterTime // of months the last window ends at model.MaxTime
}

// After returns the end of n windows, of which the first holds t. A day that a zone skips
// counts as a window.
func (w *Windows) After(t, n int64) int64 {
	end := w.End(t)
	n-- // n may be more than windows of all time
	switch {
	case n <= 0:
		return end
	case uint64(n) > (AfterTime-uint64(end))/uint64(w.Every):
		return AfterTime
	case w.Months > 0:
		return w.month(w.calendar(t) + int(n+1)*w.Months)
	case w.Loc != nil:
		half := w.Every / 2 // days are up to some hours longer or shorter
		return w.Start(min(end+n*w.Every, model.MaxTime-half) + half)
	}
	return end + n*w.Every
}

// Count returns how many windows there are in [from, to), whose ends are bounds of windows. A
// day that a zone skips counts as a window.
func (w *Windows) Count(from, to int64) int64 {
	length := uint64(to - from)
	switch {
	case from >= to:
		return 0
	case w.Months > 0:
		return int64((w.calendar(to-1)-w.calendar(from))/w.Months) + 1
	case w.Loc != nil:
		return max(1, int64((length+uint64(w.Every)/2)/uint64(w.Every)))
	}
	return int64((length-1)/uint64(w.Every)) + 1 // the first and the last may be shorter
}

// Prev returns the start of the window before the one that starts at start.
func (w *Windows) Prev(start int64) int64 {
	if start <= model.MinTime+w.Every {
		return model.MinTime
	}
	if w.Loc == nil {
		return start - w.Every
	}
	return w.Start(start - 1)
}

// ordinals is the number of ordinals of a stretch of Every. More windows do not begin in
// it: only where a clock is moved there are shorter ones.
const ordinals = 4

// Ordinal returns a number for the window that starts at start, which grows from window to
// window, and more steeply than the number of windows.
func (w *Windows) Ordinal(start int64) int64 {
	stretch := FloorDiv(start, w.Every)
	rank := int64(0)
	for s := w.Prev(start); s < start && FloorDiv(s, w.Every) == stretch; s = w.Prev(start) {
		start = s
		rank++
	}
	return stretch*min(ordinals, w.Every) + rank
}

// OfOrdinal returns the start of the window that has an ordinal.
func (w *Windows) OfOrdinal(n int64) int64 {
	stretch, rank := FloorDiv(n, min(ordinals, w.Every)), FloorMod(n, min(ordinals, w.Every))
	begin := int64(model.MinTime)
	if stretch > FloorDiv(model.MinTime, w.Every) {
		begin = stretch * w.Every
	}
	start := w.Start(begin)
	if start < begin {
		start = w.Next(start)
	}
	for range rank {
		start = w.Next(start)
	}
	return start
}

// ResultTime is the time shown for a window that starts at start.
func ResultTime(start int64) int64 {
	if start == model.MinTime {
		return 0
	}
	return start
}
