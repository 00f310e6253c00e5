package codec

import (
	"math"
	"math/bits"

	"tsdbd/internal/binio"
)

const (
	// maxDenseSpan bounds the distance of offsets, so that sums of them and
	// their zigzag form are exact.
	maxDenseSpan = 1 << 48
	// maxRest is the longest rest that is written in unary: an exception takes
	// fewer bits than a longer one.
	maxRest = 40
)

// appendDenseWords appends a block whose integer block, from inner on, is packed
// or Simple-8b words, with a smaller integer block.
func appendDenseWords(dst, block []byte, inner, n int) ([]byte, bool, error) {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	f, q := frame{}, s.a[:n]
	var err error
	if block[inner] == encPacked {
		var p packedParts
		if err = f.readPacked(&p, q, block[inner:]); err == nil {
			offsets := f.offsets(q)
			unpack(offsets, p.offsets, f.width)
			err = f.patch(offsets, p.places, p.values)
		}
	} else {
		f, err = readSimple8(q, block[inner:])
	}
	if err != nil {
		return dst, false, err
	}
	q = f.offsets(q)
	f.exceptions, f.excWidth = 0, 0
	at := len(dst)
	dst = append(dst, block[:inner]...)
	size := len(block) - inner
	if block[inner] == encPacked {
		if dst, ok := appendRice(dst, f, q, s.b[:], size-size/denseShare); ok {
			return dst, true, nil
		}
		return dst[:at], false, nil
	}
	// Simple-8b words: the size of the packed frame is known before it is written.
	p := wordPool.Get().(*wordScratch)
	defer wordPool.Put(p)
	keep := p.a[:copy(p.a[:], q)]
	top := uint64(0)
	for _, x := range q {
		top = max(top, x)
	}
	f.width = width(top)
	form := narrowest(f, q, top, p.b[:0])
	size = min(size, form.bits/8)
	if dst, ok := appendRice(dst, f, q, s.b[:], size-size/denseShare); ok {
		return dst, true, nil
	}
	if dst = packFrame(dst, &form, keep); len(dst)-at < len(block) {
		return dst, true, nil
	}
	return dst[:at], false, nil
}

// appendDenseFloats appends the quotients of a block of doubles if they save a quarter, or its ALP-RD
// form if that is smaller.
func appendDenseFloats(dst, block []byte, n int) ([]byte, bool, error) {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	w := s.a[:n]
	if err := decodeFloats(w, block); err != nil {
		return dst, false, err
	}
	at, c := len(dst), chooseSplit(w)
	size := min(c.bits/8, len(block))
	if dst, ok := appendQuotients(dst, w, size-size/quotientShare); ok {
		return dst, true, nil
	}
	if c.bits/8 < len(block) {
		if dst = appendSplit(dst, w, &c); len(dst)-at < len(block) {
			return dst, true, nil
		}
	}
	return dst[:at], false, nil
}

// ricePlan is a way to write offsets as a Rice block.
type ricePlan struct {
	signed bool
	centre uint64
	low    uint
	sum    float64 // estimate of the bits
}

// appendRice appends the offsets q of frame f as a Rice block, of their
// differences where that is smaller, if it takes at most limit bytes. It
// destroys q; u is room for as many words.
func appendRice(dst []byte, f frame, q, u []uint64, limit int) ([]byte, bool) {
	plan, ok := planRice(q)
	if f.mode == modePlain || f.mode == modeTrend {
		steps := u[:len(q)-1]
		for i := range steps {
			steps[i] = q[i+1] - q[i]
		}
		if p, good := planRice(steps); good && (!ok || p.sum*8 < plan.sum*7) {
			plan, ok = p, true
			first := f.base + f.factor*q[0]
			if f.mode == modeTrend {
				f.base = f.first
			} else {
				f.base = 0
			}
			f.mode, f.first = modeDelta, first
			q = q[:copy(q, steps)]
		}
	}
	if !ok || plan.sum > float64(8*limit) {
		return dst, false
	}
	f.signed = plan.signed
	f.base += f.factor * plan.centre
	u = u[:len(q)]
	for i, x := range q {
		if x -= plan.centre; plan.signed {
			x = binio.ZigZag(int64(x))
		}
		u[i] = x
	}
	low, cost := plan.low, math.MaxInt
	for k := max(plan.low, 1) - 1; k <= plan.low+1; k++ {
		if c := riceBits(u, k); c < cost {
			low, cost = k, c
		}
	}
	f.width = low
	return packRice(dst, &f, u, q, limit)
}

// planRice chooses the base of offsets q and estimates the width and the size;
// false if they span too much.
func planRice(q []uint64) (p ricePlan, ok bool) {
	// Distances from a rough median tell what is far out.
	centre := median(q)
	var far [9]uint64
	for i := range far {
		far[i] = magnitude(q[(2*i+1)*len(q)/18] - centre)
	}
	reach := min(8*median(far[:])+8, maxDenseSpan)
	var sum, lo int64
	highest, near := uint64(0), 0
	for _, x := range q {
		d := int64(x - centre)
		m := magnitude(uint64(d))
		lo, highest = min(lo, d), highest|m
		if m <= reach {
			near++
			sum += d
		}
	}
	if highest >= maxDenseSpan || near < len(q)-len(q)/maxExceptionShare {
		return p, false
	}
	above := float64(sum)/float64(near) - float64(lo)
	p.signed, p.centre = true, centre+uint64(int64(math.Round(float64(sum)/float64(near))))
	apart := uint64(0)
	for _, x := range q {
		if m := magnitude(x - p.centre); m <= reach {
			apart += m
		}
	}
	each := 2 * float64(apart) / float64(near) // as zigzag
	if above < each {
		p.signed, p.centre, each = false, centre+uint64(lo), above
	}
	// The best low width of a geometric distribution with that mean.
	p.low = uint(bits.Len64(uint64(each * math.Ln2)))
	if p.low > 0 {
		p.low--
	}
	p.sum = float64(len(q)) * (float64(p.low) + 1 + max(0, each/float64(uint64(1)<<p.low)-.5))
	return p, true
}

// riceBits returns the bits of u at a low width, without exceptions' own.
func riceBits(u []uint64, low uint) int {
	total := 0
	for _, x := range u {
		if x >>= low; x > maxRest {
			x = maxRest
		}
		total += int(x)
	}
	return total + len(u)*int(low+1)
}

// packRice appends the block of u if it takes at most limit bytes. It destroys
// u; places is room for as many words.
func packRice(dst []byte, f *frame, u, places []uint64, limit int) ([]byte, bool) {
	at := len(dst)
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	n, values := 0, s.a[:]
	widest := uint64(0)
	for i, x := range u {
		if x>>f.width <= maxRest {
			continue
		}
		if n == len(u)/maxExceptionShare {
			return dst, false
		}
		if !f.signed {
			x = binio.ZigZag(int64(x))
		}
		places[n], values[n] = uint64(i), x
		widest |= x
		u[i] = 0
		n++
	}
	f.exceptions, f.excWidth = n, width(widest)
	dst = f.appendHeader(dst, encRice)
	if f.width > 0 {
		mask := uint64(1)<<f.width - 1
		low := s.b[:len(u)]
		for i, x := range u {
			low[i] = x & mask
		}
		dst = appendPacked(dst, low, f.width)
	}
	dst = appendPacked(dst, places[:n], placeWidth(len(u)))
	dst = appendPacked(dst, values[:n], f.excWidth)
	dst = appendRests(dst, u, f.width)
	if len(dst)-at > limit {
		return dst[:at], false
	}
	return dst, true
}
