package codec

import "tsdbd/internal/binio"

// sampleCost is the estimated size of a frame.
type sampleCost struct {
	bits  uint // for all values, exceptions included
	width uint // of the packed values
}

// costOf estimates a frame of n values with the given span from a sample of
// them; less is the bits a common factor saves.
func costOf(sample []uint64, n int, span uint64, less uint) sampleCost {
	full := width(span)
	var h [65]uint16
	c := median(sample)
	for _, x := range sample {
		h[width(uint64(magnitude(x-c)))]++
	}
	most := len(sample) / maxExceptionShare
	k := 64
	for k > 0 && h[k] == 0 {
		k--
	}
	best := sampleCost{bits: uint(n) * full, width: full}
	exceptions := 0
	for ; k >= 0 && exceptions <= most; k-- {
		// Offsets on both sides take one bit more than the magnitude.
		w := uint(k)
		if k > 0 {
			w++
		}
		if w < full {
			outside := uint(exceptions * n / len(sample))
			if b := uint(n)*w + outside*(placeWidth(n)+full); b < best.bits {
				best = sampleCost{bits: b, width: w}
			}
		}
		exceptions += int(h[k])
	}
	saved := min(less, best.width)
	best.bits -= min(best.bits, uint(n)*saved)
	best.width -= saved
	return best
}

func magnitude(x uint64) uint64 {
	s := uint64(int64(x) >> 63)
	return (x ^ s) - s
}

// widths counts the offsets of a frame by their width, once from zero and once
// as distances from a centre on either side.
type widths struct {
	centre uint64
	up     [65]uint32
	around [65]uint32
}

func (h *widths) count(q []uint64, centre uint64) {
	h.centre = centre
	for _, x := range q {
		h.up[width(x)]++
		h.around[width(magnitude(x-centre))]++
	}
}

// narrow looks for the range of offsets, at most one in maxExceptionShare
// outside, that makes the frame smallest, and smaller than cost bits. It
// returns the range and the number of offsets outside, 0 if there is none.
func (h *widths) narrow(q []uint64, pw uint, cost int) (lo, hi uint64, exceptions int) {
	n := len(q)
	most := uint32(n / maxExceptionShare)
	try := func(counts *[65]uint32, sides uint) (k uint, bits int) {
		top := uint(64)
		for top > 0 && counts[top] == 0 {
			top--
		}
		bits = cost
		var outside uint32
		best := top
		for w := int(top); w >= 0 && outside <= most; w-- {
			packed := uint(w)
			if w > 0 {
				packed += sides
			}
			if b := n*int(packed) + int(outside)*int(pw+top+1); outside > 0 && b < bits {
				bits, best = b, uint(w)
			}
			outside += counts[w]
		}
		return best, bits
	}
	ku, bu := try(&h.up, 0)
	ka, ba := try(&h.around, 1)
	if bu >= cost && ba >= cost {
		return 0, 0, 0
	}
	limit := uint64(1) << (ku & 63) // inliers are below; ku < 64 as something is outside
	from := uint64(0)
	if ba < bu {
		reach := uint64(1)<<(ka&63) - 1
		from = h.centre - min(reach, h.centre)
		limit = h.centre + reach + 1
	}
	lo, hi = ^uint64(0), 0
	inside := 0
	for _, x := range q {
		if x >= from && x < limit {
			lo, hi = min(lo, x), max(hi, x)
			inside++
		}
	}
	// The signed offset of an exception must be exact.
	if inside == n || inside == 0 || hi >= 1<<62 || h.highest() > 62 {
		return 0, 0, 0
	}
	return lo, hi, n - inside
}

// highest returns the width of the largest offset.
func (h *widths) highest() uint {
	w := uint(64)
	for w > 0 && h.up[w] == 0 {
		w--
	}
	return w
}

// exceptionWidth returns the width of the exceptions outside [lo, hi].
func exceptionWidth(q []uint64, lo, hi uint64) uint {
	var widest uint64
	for _, x := range q {
		if x < lo || x > hi {
			widest |= binio.ZigZag(int64(x - lo))
		}
	}
	return width(widest)
}
