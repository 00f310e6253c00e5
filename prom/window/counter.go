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
	counter := k.spec.Func != "delta"
	diff := v[last] - v[0]
	if counter && len(k.resets) > 0 {
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
	sampled := float64(t[last]-t[0]) / 1000
	spacing := sampled / float64(last)
	near := spacing * 1.1

	toStart := float64(t[0]-(at-k.spec.Range)) / 1000
	if toStart >= near {
		toStart = spacing / 2
	}
	if counter && diff > 0 && v[0] >= 0 {
		// A counter began at zero, and not before.
		if toZero := sampled * (v[0] / diff); toZero < toStart {
			toStart = toZero
		}
	}
	toEnd := float64(at-t[last]) / 1000
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
