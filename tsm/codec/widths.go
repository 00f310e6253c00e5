package codec

import (
	"math/bits"

	"tsdbd/internal/binio"
)

// maxExceptionShare bounds the exceptions of a frame to one in so many values.
const maxExceptionShare = 16

// width returns the bits that u takes.
func width(u uint64) uint { return uint(bits.Len64(u)) }

// placeWidth is the width of an exception's place among count offsets.
func placeWidth(count int) uint { return width(uint64(count - 1)) }

// sampleCost is the estimated size of a frame.
type sampleCost struct {
	bits  uint // for all values, exceptions included
	width uint // of the packed values
}

// paysOver reports whether a frame saves an eighth of another.
func (c sampleCost) paysOver(other sampleCost) bool { return c.bits*8 < other.bits*7 }

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

// median returns the median of nine values spread over v.
func median(v []uint64) uint64 {
	var m [9]uint64
	for i := range m {
		x := v[(2*i+1)*len(v)/18]
		j := i
		for ; j > 0 && int64(m[j-1]) > int64(x); j-- {
			m[j] = m[j-1]
		}
		m[j] = x
	}
	return m[4]
}

func magnitude(x uint64) uint64 {
	s := uint64(int64(x) >> 63)
	return (x ^ s) - s
}

// narrowSample is how many offsets narrow counts before it looks at all.
const narrowSample = 256

// narrow looks for a range of offsets with few outside that makes a frame
// smaller than cost bits. The widths of a sample of offsets, counted once from
// zero and once as distances from the median on either side, give the range;
// then it is tightened to the offsets that are in it. narrow returns the range
// and appends to places those of the offsets outside, none if there is no such
// range.
func narrow(q []uint64, top uint64, cost int, places []uint64) (lo, hi uint64, _ []uint64) {
	if top >= 1<<62 {
		return 0, 0, nil // the signed offsets of exceptions would not be exact
	}
	var up, around [65]uint32
	stride := (len(q) + narrowSample - 1) / narrowSample
	count := 0
	centre := median(q)
	for i := 0; i < len(q); i += stride {
		up[width(q[i])]++
		around[width(magnitude(q[i]-centre))]++
		count++
	}
	widest := int(width(top))
	each := int(placeWidth(len(q))) + widest + 1
	ku, bu := narrowestWidth(up[:widest+1], count, len(q), each, 0, cost)
	ka, ba := narrowestWidth(around[:widest+1], count, len(q), each, 1, cost)
	if bu >= cost && ba >= cost {
		return 0, 0, nil
	}
	// Inliers are narrower than top, so their widths are below 63.
	from, span := uint64(0), uint64(1)<<ku-1
	if ba < bu {
		reach := uint64(1)<<ka - 1
		from = centre - min(reach, centre)
		span = centre + reach - from
	}
	lo, hi = ^uint64(0), 0
	for i, x := range q {
		if x-from > span {
			// Far more than the sample promised: it misled.
			if len(places) == len(q)/2 {
				return 0, 0, nil
			}
			places = append(places, uint64(i))
			continue
		}
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi, places
}

// narrowestWidth returns the width of inliers that makes a frame of n offsets
// smallest, given how many of a sample have each width, and the frame's bits;
// an exception takes each bits. If nothing is below cost, it returns cost.
// sides is the bit that a distance on either side takes in addition.
func narrowestWidth(counts []uint32, sample, n, each, sides, cost int) (inlier uint, bits int) {
	w := len(counts) - 1
	for w > 0 && counts[w] == 0 {
		w--
	}
	bits = cost
	outside := 0
	for most := sample / maxExceptionShare; w >= 0 && outside <= most; w-- {
		packed := w
		if w > 0 {
			packed += sides
		}
		// Nothing outside in the sample: some may be in the block.
		if b := n*packed + max(outside*n/sample, 1)*each; b < bits {
			inlier, bits = uint(w), b
		}
		outside += int(counts[w])
	}
	return inlier, bits
}

// exceptionWidth returns the width of the exceptions outside [lo, hi] of
// offsets from 0 to top, both occur.
func exceptionWidth(lo, hi, top uint64) uint {
	var widest uint64
	if lo > 0 {
		widest = binio.ZigZag(-int64(lo))
	}
	if hi < top {
		widest |= binio.ZigZag(int64(top - lo))
	}
	return width(widest)
}
