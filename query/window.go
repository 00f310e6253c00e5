package query

import (
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

// windows cuts time into the intervals of GROUP BY time. The zero value is one
// window that holds all time.
type windows struct {
	every int64
	shift int64
	loc   *time.Location // nil: UTC
}

func (w *windows) none() bool { return w.every <= 0 }

func (w *windows) zone(t int64) int64 {
	_, off := time.Unix(0, t).In(w.loc).Zone()
	return int64(off) * int64(time.Second)
}

// start returns the start of the window that holds t. Windows are counted from
// the epoch (in the wall clock of the zone, if there is one) and moved by the
// offset. The first window of all time starts at model.MinTime.
func (w *windows) start(t int64) int64 {
	if w.every <= 0 {
		return model.MinTime
	}
	if w.loc == nil {
		dt := floorMod(t-w.shift, w.every)
		if model.MinTime+dt >= t {
			return model.MinTime
		}
		return t - dt
	}
	zone := w.zone(t)
	dt := floorMod(t+zone-w.shift, w.every)
	if model.MinTime+dt >= t {
		return model.MinTime
	}
	start := t - dt
	// The zone's offset may have changed since the start. Windows begin at the
	// wall clock's multiples unless the change is as long as a window.
	zs := w.zone(start)
	if o := zone - zs; o != 0 && abs(o) < w.every {
		start += o
		zs = w.zone(start)
	}
	// Of a wall clock time that comes twice, windows begin at the first.
	at := time.Unix(0, start).In(w.loc)
	if begin, _ := at.ZoneBounds(); !begin.IsZero() {
		if o := w.zone(begin.UnixNano()-1) - zs; o > 0 && o < w.every && start-begin.UnixNano() < o {
			start -= o
		}
	}
	return start
}

// next returns the start of the window after the one that starts at start.
func (w *windows) next(start int64) int64 {
	if start == model.MinTime && w.every > 0 {
		// The first window is cut off by the start of time.
		return start + w.every - floorMod(start-w.shift%w.every, w.every)
	}
	next := start + w.every
	if next < start {
		return model.MaxTime
	}
	if w.loc == nil {
		return next
	}
	// Around a change of the zone's offset a window is shorter or longer.
	if s := w.start(next); s > start {
		if between := w.start(s - 1); between > start {
			return between
		}
		return s
	}
	for d := w.every / 4; ; d += w.every / 4 {
		if s := w.start(next + d + 1); s > start {
			return s
		}
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

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

// resultTime is the time shown for a window that starts at start.
func resultTime(start int64) int64 {
	if start == model.MinTime {
		return 0
	}
	return start
}
