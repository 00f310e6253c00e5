package query

import (
	"math"
	"time"

	"tsdbd/model"
)

func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// windows cuts time into the intervals of GROUP BY time. The zero value is one
// window that holds all time.
type windows struct {
	every   int64
	shift   int64
	loc     *time.Location // nil: UTC
	months  int            // of calendar windows, which have a loc; every is then the longest they are but for moved clocks
	refused error          // what is wrong with the offset, told after all else
}

func (w *windows) none() bool { return w.every <= 0 }

// asked reports whether the statement names an interval, though it be negative,
// which makes no windows.
func (w *windows) asked() bool { return w.every != 0 }

func (w *windows) zone(t int64) int64 {
	_, off := time.Unix(0, t).In(w.loc).Zone()
	return int64(off) * int64(time.Second)
}

// since returns the time from the start of the window that holds t, in UTC.
func (w *windows) since(t int64) int64 {
	return floorMod(floorMod(t, w.every)-w.shift, w.every) // t-w.shift might overflow
}

// start returns the start of the window that holds t. Windows are counted from
// the epoch (in the wall clock of the zone, if there is one) and moved by the
// offset. The first window of all time starts at model.MinTime.
func (w *windows) start(t int64) int64 {
	if w.every <= 0 {
		return model.MinTime
	}
	if w.months > 0 {
		return w.month(w.calendar(t))
	}
	if w.loc == nil {
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
func (w *windows) zoned(t int64) int64 {
	at := time.Unix(0, t).In(w.loc)
	_, seconds := at.Zone()
	off := int64(seconds) * int64(time.Second)
	wall := t + off - floorMod(t+off-w.shift, w.every)
	start := wall - off
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
		if by < 0 && -by < w.every && start-moved < -by {
			return start + by // the same time before the clock was moved back
		}
		return start
	case by > 0 && by < w.every && wall >= moved+off-by:
		return moved
	}
	return w.zoned(moved - 1)
}

// afterTime lies after every time.
const afterTime = math.MaxInt64

// next returns the start of the window after the one that starts at start, or
// afterTime if it is the last.
func (w *windows) next(start int64) int64 {
	if w.months > 0 {
		return w.month(w.calendar(start) + w.months)
	}
	if w.none() {
		return afterTime
	}
	if start == model.MinTime && w.loc == nil {
		// The first window is cut off by the start of time.
		return start + w.every - w.since(start)
	}
	next := start + w.every
	if next < start {
		return afterTime
	}
	if w.loc == nil {
		return next
	}
	s := w.start(next)
	for d := w.every/4 + 1; s <= start; d += w.every/4 + 1 {
		if next > model.MaxTime-d {
			return afterTime
		}
		s = w.start(next + d)
	}
	for {
		between := w.start(s - 1)
		if between <= start {
			return s
		}
		s = between
	}
}

// prev returns the start of the window before the one that starts at start.
func (w *windows) prev(start int64) int64 {
	if start <= model.MinTime+w.every {
		return model.MinTime
	}
	if w.loc == nil {
		return start - w.every
	}
	return w.start(start - 1)
}

// resultTime is the time shown for a window that starts at start.
func resultTime(start int64) int64 {
	if start == model.MinTime {
		return 0
	}
	return start
}
