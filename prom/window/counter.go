package window

// findResets lists the samples that are below the one before.
func (k *kernel) findResets() {
	k.resets, k.next = k.resets[:0], 0
	prev := k.v[0]
	for i, v := range k.v {
		if v < prev {
			k.resets = append(k.resets, int32(i))
		}
		prev = v
	}
}

// slope is rate, increase, and delta: the difference of the last and the first
// sample, with what counters lost by resets, extrapolated to the bounds of the
// window.
func (k *kernel) slope(lo, hi int, at int64) float64 {
	if hi-lo < 2 {
		return Absent()
	}
	t, v := k.t[lo:hi], k.v[lo:hi]
	last := len(v) - 1
	diff := v[last] - v[0]
	if k.counter() && len(k.resets) > 0 {
		for k.next < len(k.resets) && int(k.resets[k.next]) <= lo {
			k.next++
		}
		for _, r := range k.resets[k.next:] {
			if int(r) >= hi {
				break
			}
			diff += k.v[r-1]
		}
	}
	return k.extrapolate(diff, v[0], float64(last), float64(t[last]-t[0])/1000, float64(t[0]-(at-k.spec.Range))/1000, float64(at-t[last])/1000)
}

// counter reports whether samples are those of a counter.
func (k *kernel) counter() bool { return k.spec.Func != "delta" }

// extrapolate extends a difference between samples to the bounds of the window. gaps is how many
// gaps there are between the samples. The times are in seconds: from the first sample to the
// last, and from both to the bounds.
func (k *kernel) extrapolate(diff, first, gaps, sampled, toStart, toEnd float64) float64 {
	spacing := sampled / gaps
	near := spacing * 1.1
	if toStart >= near {
		toStart = spacing / 2
	}
	if k.counter() && diff > 0 && first >= 0 {
		// A counter began at zero, and not before.
		if toZero := sampled * (first / diff); toZero < toStart {
			toStart = toZero
		}
	}
	if toEnd >= near {
		toEnd = spacing / 2
	}
	factor := (sampled + toStart + toEnd) / sampled
	if k.spec.Func == "rate" {
		factor /= k.seconds
	}
	return diff * factor
}

// instant is irate and idelta: the last two samples.
func (k *kernel) instant(lo, hi int, _ int64) float64 {
	if hi-lo < 2 {
		return Absent()
	}
	rate := k.spec.Func == "irate"
	value, prev := k.v[hi-1], k.v[hi-2]
	if !rate || !(value < prev) {
		value -= prev
	}
	if rate {
		value /= float64(k.t[hi-1]-k.t[hi-2]) / 1000
	}
	return value
}

// markResets counts the samples below the one before.
func (k *kernel) markResets() {
	k.mark(func(prev, v float64) bool { return v < prev })
}

// markChanges counts the samples that differ from the one before.
func (k *kernel) markChanges() {
	k.mark(func(prev, v float64) bool { return v != prev && (v == v || prev == prev) })
}

func (k *kernel) mark(event func(prev, v float64) bool) {
	k.marks = append(k.marks[:0], 0)
	n := int32(0)
	for i := 1; i < len(k.v); i++ {
		if event(k.v[i-1], k.v[i]) {
			n++
		}
		k.marks = append(k.marks, n)
	}
}

// marked is changes and resets: the events after the first sample of the window.
func (k *kernel) marked(lo, hi int, _ int64) float64 {
	return float64(k.marks[hi-1] - k.marks[lo])
}

// Columns of slopeOfWindows.
const (
	firstColumn = iota
	lastColumn
	countColumn
	increaseColumn
)

// slopeOfWindows is rate, increase and delta of windows. The samples of a window are taken as
// evenly spaced in it.
func (k *kernel) slopeOfWindows(lo, hi int, at int64) float64 {
	w := k.windows
	first, last, count := w.Columns[firstColumn], w.Columns[lastColumn], w.Columns[countColumn]
	n := 0.0
	for _, c := range count[lo:hi] {
		n += c
	}
	if n < 2 {
		return Absent()
	}
	diff := last[hi-1] - first[lo]
	if k.counter() {
		diff = k.increase(lo, hi)
	}
	begin, end := float64(w.Times[lo]), float64(w.Times[hi-1])
	if length := float64(w.Lengths[lo]); length > 0 {
		begin += 1 - length + length/(2*count[lo])
	}
	if length := float64(w.Lengths[hi-1]); length > 0 {
		end += 1 - length/(2*count[hi-1])
	}
	return k.extrapolate(diff, first[lo], n-1, (end-begin)/1000, (begin-float64(at-k.spec.Range))/1000, (float64(at)-end)/1000)
}

// increase returns the increase of a counter from the first sample of a window to the last of
// another one. That of a window has the step into its first sample, if the last sample
// before it is in the window before.
func (k *kernel) increase(lo, hi int) (sum float64) {
	w := k.windows
	first, last := w.Columns[firstColumn], w.Columns[lastColumn]
	for i := lo; i < hi; i++ {
		sum += w.Columns[increaseColumn][i]
		if i == 0 {
			continue
		}
		step := first[i] - last[i-1]
		if first[i] < last[i-1] { // a reset
			step = first[i]
		}
		switch has := w.Times[i-1] > w.Times[i]-2*w.Lengths[i]; {
		case i == lo && has:
			sum -= step
		case i > lo && !has:
			sum += step
		}
	}
	return sum
}
