package partial

import (
	"slices"
	"unsafe"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/window"
)

// cut is the rows [lo, hi) of a chunk that lie in one window, or in several
// that follow each other and have as many rows each, and the states of these
// windows, slots for each.
type cut struct {
	st     []State
	lo, hi int
	rows   int // of a window
}

// windowWalk numbers the windows of times that mostly ascend. It divides only
// where a time lies further than the neighbouring window.
type windowWalk struct {
	p           *Plan
	number      int64
	start, next int64 // of the present window; next == start: there is none yet
}

// to moves to the window that holds t.
func (k *windowWalk) to(t int64) {
	w := k.p.Windows
	switch {
	case t >= k.start && t < k.next:
		return
	case w.None():
		k.number, k.start, k.next = 0, model.MinTime, window.AfterTime
		return
	case w.Loc == nil && k.next > k.start && k.start > model.MinTime && t >= k.next && uint64(t-k.next) < uint64(w.Every):
		k.number++
		k.start, k.next = k.next, w.Next(k.next)
		return
	}
	k.start = w.Start(t)
	k.number = k.p.number(k.start)
	k.next = w.Next(k.start)
}

// skip moves n windows on, which exist and are as long as all are.
func (k *windowWalk) skip(n int64) {
	if n > 0 {
		k.number += n
		k.start += n * k.p.Windows.Every
		k.next = k.p.Windows.Next(k.start)
	}
}

// cutTimes cuts rows at ascending times into the windows of a group. Most windows have as
// many rows as the one before, if rows come at a steady pace.
func (w *Worker) cutTimes(g int32, times []int64) {
	w.cuts = w.cuts[:0]
	k := &w.walk
	rows, number := 0, int64(0) // of the window before
	for lo := 0; lo < len(times); {
		k.to(times[lo])
		hi := lo + rows
		switch {
		case rows > 0 && hi < len(times) && times[hi-1] < k.next && times[hi] >= k.next:
		case times[len(times)-1] < k.next:
			hi = len(times)
		default:
			hi = lo + 1 + before(times[lo+1:], k.next)
		}
		if hi-lo == rows && k.number == number+1 && w.t.follows(k.number) {
			c := &w.cuts[len(w.cuts)-1]
			c.st, c.hi = c.st[:len(c.st)+w.t.slots], hi
		} else {
			w.cuts = append(w.cuts, cut{w.t.At(g, k.number), lo, hi, hi - lo})
		}
		rows, number, lo = hi-lo, k.number, hi
	}
}

// before returns how many of ascending times are before end. The last one is not.
// Most windows hold few of the rows, so it looks at the first ones, then gallops, then
// searches.
func before(times []int64, end int64) int {
	const near = 16
	lo := 0
	for ; lo < near; lo++ {
		if times[lo] >= end {
			return lo
		}
	}
	step := near
	for lo+step < len(times) && times[lo+step] < end {
		lo += step + 1
		step *= 2
	}
	for hi := min(lo+step, len(times)-1); lo < hi; {
		if m := int(uint(lo+hi) >> 1); times[m] < end {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// cutRegular is cutTimes for n rows at first, first+step and so on.
func (w *Worker) cutRegular(g int32, first, step int64, n int) {
	w.cuts = w.cuts[:0]
	k := &w.walk
	last := first + int64(n-1)*step
	whole := 0 // rows of every window but the first and the last
	if win := w.p.Windows; win.Loc == nil && win.Every%step == 0 && win.Every/step <= int64(n) {
		whole = int(win.Every / step)
	}
	for lo := 0; lo < n; {
		at := first + int64(lo)*step
		k.to(at)
		if full := (n - lo) / max(whole, 1); lo > 0 && whole > 0 && full > 0 {
			st := w.t.from(g, k.number)
			windows := min(full, len(st)/w.t.slots)
			w.cuts = append(w.cuts, cut{st[:windows*w.t.slots], lo, lo + windows*whole, whole})
			k.skip(int64(windows - 1))
			lo += windows * whole
			continue
		}
		hi := n
		if last >= k.next {
			// Distances fit in uint64 even where they overflow int64.
			hi = lo + int((uint64(k.next-at)-1)/uint64(step)) + 1
		}
		w.cuts = append(w.cuts, cut{w.t.At(g, k.number), lo, hi, hi - lo})
		lo = hi
	}
}

// foldCuts folds a column into a slot of every cut. cols are the columns of
// rows that lie in memory, or nil for the chunk's. It reports whether there was
// a value.
func (w *Worker) foldCuts(slot int, v *column.Vector, cols []column.Vector) bool {
	if v.Type == model.Unknown {
		return false
	}
	sl := &w.p.Slots[slot]
	if v.Valid == nil && v.Type == sl.Type && !sl.Timed && w.foldDense(slot, sl.Kind, v) {
		return true
	}
	met := false
	for i := range w.cuts {
		c := &w.cuts[i]
		for lo, at := c.lo, slot; lo < c.hi; lo, at = lo+c.rows, at+w.t.slots {
			met = w.foldRow(&c.st[at], sl, v, lo, lo+c.rows, cols) || met
		}
	}
	return met
}

// foldDense is foldCuts for a column without nulls. It reports whether there is a
// loop for that.
func (w *Worker) foldDense(slot int, kind Kind, v *column.Vector) bool {
	cuts, slots := w.cuts, w.t.slots
	switch {
	case kind == Count:
		w.countCuts(slot, 1)
	case kind == Sum && v.Type == model.Float:
		sumFloatCuts(cuts, slot, slots, v.Floats, &w.runs)
	case kind == Sum && v.Type == model.Integer && (w.narrow || fitsAll(v.Ints)):
		sumCuts(cuts, slot, slots, v.Ints, w.runs.ints[:])
	case kind == Sum && v.Type == model.Unsigned && (w.narrow || fitsAll(v.Uints)):
		sumCuts(cuts, slot, slots, asInts(v.Uints), w.runs.ints[:])
	case kind == Min && v.Type == model.Float:
		edgeCuts(cuts, slot, slots, v.Floats, w.runs.floats[:], vector.MinFloatRuns, false)
	case kind == Min && v.Type == model.Integer:
		edgeCuts(cuts, slot, slots, v.Ints, w.runs.ints[:], vector.MinIntRuns, false)
	case kind == Min && v.Type == model.Unsigned:
		edgeCuts(cuts, slot, slots, v.Uints, w.runs.uints[:], minUintRuns, false)
	case kind == Max && v.Type == model.Float:
		edgeCuts(cuts, slot, slots, v.Floats, w.runs.floats[:], vector.MaxFloatRuns, true)
	case kind == Max && v.Type == model.Integer:
		edgeCuts(cuts, slot, slots, v.Ints, w.runs.ints[:], vector.MaxIntRuns, true)
	case kind == Max && v.Type == model.Unsigned:
		edgeCuts(cuts, slot, slots, v.Uints, w.runs.uints[:], maxUintRuns, true)
	default:
		return false
	}
	return true
}

// countCuts counts the rows of every window, each as so many values.
func (w *Worker) countCuts(slot int, each int64) {
	for i := range w.cuts {
		c := &w.cuts[i]
		for at := slot; at < len(c.st); at += w.t.slots {
			c.st[at].N += each * int64(c.rows)
		}
	}
}

// runScratch holds what the windows of a cut give, a page of them.
type runScratch struct {
	ints   [pageWindows]int64
	uints  [pageWindows]uint64
	floats [pageWindows]float64
	lost   [pageWindows]float64 // of sums in floats
}

// sumFloatCuts adds floats without nulls to their windows.
func sumFloatCuts(cuts []cut, slot, slots int, x []float64, scratch *runScratch) {
	for i := range cuts {
		c := &cuts[i]
		n := len(c.st) / slots
		vector.SumFloatRuns(scratch.floats[:n], scratch.lost[:n], x[c.lo:c.hi], c.rows)
		at := slot
		for k := range n {
			st := &c.st[at]
			st.N += int64(c.rows)
			st.AddFloat(scratch.floats[k], scratch.lost[k])
			at += slots
		}
	}
}

// sumCuts adds integers without nulls, whose sums fit, to their windows.
func sumCuts(cuts []cut, slot, slots int, x, scratch []int64) {
	for i := range cuts {
		c := &cuts[i]
		sums := scratch[:len(c.st)/slots]
		vector.SumIntRuns(sums, x[c.lo:c.hi], c.rows)
		at := slot
		for _, s := range sums {
			st := &c.st[at]
			st.N += int64(c.rows)
			st.AddWide(Wide(s))
			at += slots
		}
	}
}

// edgeCuts keeps the smallest or largest of numbers without nulls in their windows,
// the first of equals. find sets its first argument to those of runs of k values.
func edgeCuts[T int64 | uint64 | float64](cuts []cut, slot, slots int, x, scratch []T, find func(dst, x []T, k int), largest bool) {
	for i := range cuts {
		c := &cuts[i]
		found := scratch[:len(c.st)/slots]
		find(found, x[c.lo:c.hi], c.rows)
		at := slot
		for _, m := range found {
			if st := &c.st[at]; st.N == 0 || largest && m > fromWord[T](st.A) || !largest && m < fromWord[T](st.A) {
				st.N, st.A = 1, toWord(m)
			}
			at += slots
		}
	}
}

// minUintRuns and maxUintRuns are what package vector has for other numbers.
func minUintRuns(dst, x []uint64, k int) {
	for i := range dst {
		dst[i] = slices.Min(x[i*k : (i+1)*k])
	}
}

func maxUintRuns(dst, x []uint64, k int) {
	for i := range dst {
		dst[i] = slices.Max(x[i*k : (i+1)*k])
	}
}

// toWord returns the bits of a number.
func toWord[T int64 | uint64 | float64](x T) uint64 { return *(*uint64)(unsafe.Pointer(&x)) }

// asInts returns words as integers.
func asInts[T int64 | uint64](x []T) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// fromWord is the inverse of toWord.
func fromWord[T int64 | uint64 | float64](w uint64) T { return *(*T)(unsafe.Pointer(&w)) }
