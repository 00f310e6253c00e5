package codec

import (
	"encoding/binary"
	"math"
	"math/bits"

	"tsdbd/internal/binio"
)

// A frame writes each value as an offset from a prediction, divided by a
// common factor, in a fixed number of bits; offsets that do not fit are exceptions:
//
//	4 | mode | width | [first or slope] | [first rate] | base | [factor] |
//	[exceptions, their width] | packed offsets | packed exception places |
//	packed exception offsets
//
//	plain           x[i] = base + factor*q[i]
//	delta           x[0] = first, x[i] = x[i-1] + base + factor*q[i-1]
//	trend           x[i] = base + slope*i + factor*q[i]
//	delta-of-delta  x[0] = first, d[0] = first rate, d[i] = d[i-1] + base + factor*q[i-1],
//	                x[i] = x[i-1] + d[i-1]
//
// q is unsigned, an exception's q is signed (zigzag), so that outliers on
// either side cost nothing but themselves.
const (
	modePlain = 0
	modeDelta = 1
	modeTrend = 2
	modeRates = 3 // delta-of-delta
	modeMask  = 3

	flagFactor     = 4
	flagExceptions = 8
	flagMask       = modeMask | flagFactor | flagExceptions

	// smallFrame values or fewer are packed by their range alone.
	smallFrame = 16
	// frameSample is how many values the choice of the mode looks at; as many
	// or fewer are judged by their range.
	frameSample = 64
	// minRates is the shortest block that pays for the longer header of
	// delta-of-delta.
	minRates = 16
	// maxSlopeFactor keeps MaxValues times the factor inside an int64.
	maxSlopeFactor = 1 << 48
)

type frame struct {
	mode       byte
	first      uint64 // trend: slope; delta and delta-of-delta: first value
	rate       uint64 // delta-of-delta: first difference
	base       uint64
	factor     uint64
	width      uint
	exceptions int
	excWidth   uint
	signed     bool // of Rice blocks: offsets on both sides of the base
}

func (f *frame) appendHeader(dst []byte, enc byte) []byte {
	m := f.mode
	if f.factor != 1 {
		m |= flagFactor
	}
	if f.exceptions > 0 {
		m |= flagExceptions
	}
	if f.signed {
		m |= flagSigned
	}
	dst = append(dst, enc, m, byte(f.width))
	if f.mode != modePlain {
		dst = binary.AppendUvarint(dst, binio.ZigZag(int64(f.first)))
	}
	if f.mode == modeRates {
		dst = binary.AppendUvarint(dst, binio.ZigZag(int64(f.rate)))
	}
	dst = binary.AppendUvarint(dst, binio.ZigZag(int64(f.base)))
	if f.factor != 1 {
		dst = binary.AppendUvarint(dst, f.factor)
	}
	if f.exceptions > 0 {
		dst = binary.AppendUvarint(dst, uint64(f.exceptions))
		dst = append(dst, byte(f.excWidth))
	}
	return dst
}

// read reads the header of a frame of n values.
func (f *frame) read(d *binio.Decoder, n int) error {
	enc, m := d.Byte(), d.Byte()
	if enc == encRice {
		f.signed = m&flagSigned != 0
		m &^= flagSigned
	}
	f.mode, f.width, f.factor = m&modeMask, uint(d.Byte()), 1
	if f.mode != modePlain {
		f.first = uint64(d.Varint())
	}
	if f.mode == modeRates {
		f.rate = uint64(d.Varint())
	}
	f.base = uint64(d.Varint())
	if m&flagFactor != 0 {
		f.factor = d.Uvarint()
	}
	if m&flagExceptions != 0 {
		e := d.Uvarint()
		f.excWidth = uint(d.Byte())
		if e < 1 || e > uint64(n) {
			d.Fail("number of exceptions")
		}
		f.exceptions = int(e)
	}
	if m&^byte(flagMask) != 0 || f.width > 64 || f.excWidth > 64 {
		d.Fail("frame header")
	}
	if n <= f.lead() {
		d.Fail("empty frame")
	}
	return d.Err()
}

// lead returns how many values the header holds instead of offsets.
func (f *frame) lead() int {
	switch f.mode {
	case modeDelta:
		return 1
	case modeRates:
		return 2
	}
	return 0
}

// sums returns the two delta frames that a frame of delta-of-delta is made of:
// the offsets give the rates, and the rates, as offsets, give the values.
func (f *frame) sums() (rates, values frame) {
	rates = *f
	rates.mode, rates.first = modeDelta, f.rate
	return rates, frame{mode: modeDelta, first: f.first, factor: 1}
}

func decodePacked(dst []uint64, block []byte) error { return decodeScaled(dst, block, nil) }

// decodeScaled decodes a packed block into dst; with a scale it divides the
// values and leaves the bits of doubles.
func decodeScaled(dst []uint64, block []byte, scale *decimalScale) error {
	var f frame
	var p packedParts
	if err := f.readPacked(&p, dst, block); err != nil {
		return err
	}
	if f.mode != modeRates {
		return f.decode(dst, &p, scale)
	}
	rates, values := f.sums()
	if err := rates.decode(dst[1:], &p, nil); err != nil {
		return err
	}
	values.restore(dst, scale)
	return nil
}

// decode decodes the parts of a packed block whose mode is not delta-of-delta.
func (f *frame) decode(dst []uint64, p *packedParts, scale *decimalScale) error {
	q := f.offsets(dst)
	if f.exceptions > 0 && f.mode == modeDelta { // they move all values behind
		unpack(q, p.offsets, f.width)
		if err := f.patch(q, p.places, p.values); err != nil {
			return err
		}
		f.restore(dst, scale)
		return nil
	}
	if n, x := frameVector(q, p.offsets, f, scale); n > 0 {
		unpackTail(q[n:], p.offsets[uint(n)/8*f.width:], f.width)
		f.restoreFrom(dst, n, x, scale)
	} else {
		unpack(q, p.offsets, f.width)
		f.restore(dst, scale)
	}
	if f.exceptions == 0 {
		return nil
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	places, offsets, err := f.readExceptions(s, p.places, p.values, len(q))
	if err != nil {
		return err
	}
	for i, at := range places {
		q[at] = scale.word(f.base + at*f.first + f.factor*offsets[i])
	}
	return nil
}

// packedParts are what follows the header of a packed block.
type packedParts struct {
	offsets        []byte
	places, values []byte // of exceptions
}

// readPacked takes apart a packed block of len(dst) values.
func (f *frame) readPacked(p *packedParts, dst []uint64, block []byte) error {
	d := binio.NewDecoder(block)
	if err := f.read(&d, len(dst)); err != nil {
		return err
	}
	n := len(f.offsets(dst))
	p.offsets = d.Bytes(packedLen(n, f.width))
	if f.exceptions > 0 {
		p.places = d.Bytes(packedLen(f.exceptions, placeWidth(n)))
		p.values = d.Bytes(packedLen(f.exceptions, f.excWidth))
	}
	if d.Err() != nil {
		return d.Err()
	}
	if d.Len() != 0 {
		return corrupt("trailing bytes")
	}
	return nil
}

// offsets returns the part of dst that the offsets belong to.
func (f *frame) offsets(dst []uint64) []uint64 { return dst[f.lead():] }

// patch puts exceptions into the offsets q.
func (f *frame) patch(q []uint64, packedPlaces, packedValues []byte) error {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	places, offsets, err := f.readExceptions(s, packedPlaces, packedValues, len(q))
	if err != nil {
		return err
	}
	for i, at := range places {
		q[at] = offsets[i]
	}
	return nil
}

// readExceptions returns the places, below n, and the offsets of the frame's
// exceptions.
func (f *frame) readExceptions(s *wordScratch, packedPlaces, packedValues []byte, n int) (places, offsets []uint64, err error) {
	places, offsets = s.a[:f.exceptions], s.b[:f.exceptions]
	unpack(places, packedPlaces, placeWidth(n))
	unpack(offsets, packedValues, f.excWidth)
	for i, at := range places {
		if at >= uint64(n) {
			return nil, nil, corrupt("exception place")
		}
		offsets[i] = uint64(binio.UnZigZag(offsets[i]))
	}
	return places, offsets, nil
}

// restore turns the offsets in dst, which start at dst[f.lead()], into values.
// With a scale the values are divided.
func (f *frame) restore(dst []uint64, scale *decimalScale) {
	if f.mode == modeRates {
		rates, values := f.sums()
		rates.restore(dst[1:], nil)
		values.restore(dst, scale)
		return
	}
	n, x := frameVector(f.offsets(dst), nil, f, scale)
	f.restoreFrom(dst, n, x, scale)
}

// restoreFrom is restore for the offsets from number n on, in modes other than
// delta-of-delta. x is the value before in delta mode.
func (f *frame) restoreFrom(dst []uint64, n int, x uint64, scale *decimalScale) {
	q := f.offsets(dst)[n:]
	if f.mode == modeDelta {
		dst[0] = scale.word(f.first)
	}
	if scale != nil && scale.power != 1 {
		f.restoreDecimals(q, n, x, scale.power)
		return
	}
	base, factor := f.base, f.factor
	switch {
	case f.mode == modePlain && factor == 1:
		for i, o := range q {
			q[i] = base + o
		}
	case f.mode == modePlain:
		for i, o := range q {
			q[i] = base + factor*o
		}
	case f.mode == modeTrend:
		base += uint64(n) * f.first
		for i, o := range q {
			q[i] = base + factor*o
			base += f.first
		}
	case factor == 1:
		for i, o := range q {
			x += base + o
			q[i] = x
		}
	default:
		for i, o := range q {
			x += base + factor*o
			q[i] = x
		}
	}
	scale.divide(q)
}

// restoreDecimals is restoreFrom with a division in the same loop, which hides
// the rest.
func (f *frame) restoreDecimals(q []uint64, n int, x uint64, power float64) {
	base, factor, out := f.base, f.factor, floats(q)
	switch f.mode {
	case modePlain:
		for i, o := range q {
			out[i] = float64(int64(base+factor*o)) / power
		}
	case modeDelta:
		for i, o := range q {
			x += base + factor*o
			out[i] = float64(int64(x)) / power
		}
	case modeTrend:
		base += uint64(n) * f.first
		for i, o := range q {
			out[i] = float64(int64(base+factor*o)) / power
			base += f.first
		}
	}
}

// appendFrame appends v, which is not linear, as a packed frame or as Simple-8b
// words.
func appendFrame(dst []byte, v []uint64, st *wordStats, c choice) []byte {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	f, q, top, sampled := chooseMode(s, v, st)

	// From here q holds offsets from the smallest, at most top.
	f.factor = commonFactor(q, top)
	if f.factor != 1 {
		top = divideAll(q, f.factor, top)
	}
	f.width = width(top)
	form := packedForm{frame: f, bits: len(q) * int(f.width)}
	if len(q) <= smallFrame {
		return packFrame(dst, &form, q)
	}
	// A look at all offsets pays if the sample promises a narrower frame.
	if sampled < f.width {
		form = narrowest(f, q, top, s.b[:0])
	}
	if limit := c.simple8Limit(form.bits); simple8Promises(q, limit) {
		if out, ok := appendSimple8(dst, &f, q, limit/8); ok {
			return out
		}
	}
	return packFrame(dst, &form, q)
}

// packedForm is a way to pack offsets.
type packedForm struct {
	frame
	lo     uint64   // offset that becomes 0
	places []uint64 // of exceptions
	bits   int      // of offsets and exceptions
}

// narrowest returns the smallest packed form of offsets q up to top, with
// exceptions if they make it smaller. Their places are appended to places.
func narrowest(f frame, q []uint64, top uint64, places []uint64) packedForm {
	p := packedForm{frame: f, bits: len(q) * int(f.width)}
	from, to, out := narrow(q, top, p.bits, places)
	pw, vw := placeWidth(len(q)), exceptionWidth(from, to, top)
	if bits := len(q)*int(width(to-from)) + len(out)*int(pw+vw); len(out) > 0 && bits < p.bits {
		p.bits, p.lo, p.places = bits, from, out
		p.base += f.factor * from
		p.width = width(to - from)
		p.exceptions, p.excWidth = len(out), vw
	}
	return p
}

// packFrame appends a packed form of q. It destroys q and the places.
func packFrame(dst []byte, p *packedForm, q []uint64) []byte {
	dst = p.appendHeader(dst, encPacked)
	if len(p.places) == 0 {
		return appendPacked(dst, q, p.width)
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	values := s.a[:len(p.places)]
	for i, at := range p.places {
		values[i] = binio.ZigZag(int64(q[at] - p.lo))
		q[at] = p.lo
	}
	if p.lo != 0 {
		for i := range q {
			q[i] -= p.lo
		}
	}
	dst = appendPacked(dst, q, p.width)
	dst = appendPacked(dst, p.places, placeWidth(len(q)))
	return appendPacked(dst, values, p.excWidth)
}

// chooseMode picks plain, delta, trend or delta-of-delta from a sample, computes the offsets
// into s.a, and returns the frame (base, first, mode), the offsets, their
// largest, and the width that the sample promises with exceptions taken out.
func chooseMode(s *wordScratch, v []uint64, st *wordStats) (f frame, q []uint64, top uint64, sampled uint) {
	c := costsOf(s, v, st)
	best := c.plain
	// Delta costs a dependent addition per value, delta-of-delta two: each must
	// save an eighth of the form before.
	if c.delta.paysOver(best) {
		f.mode, best = modeDelta, c.delta
	}
	if c.rates.paysOver(best) {
		f.mode, best = modeRates, c.rates
	}
	// Trend decodes without that dependency: it need only be as small.
	if c.slope != 0 && c.trend.paysOver(c.plain) && c.trend.bits <= best.bits {
		f.mode, f.first, best = modeTrend, c.slope, c.trend
	}
	if q, top = f.offsetsOf(s, v, st); len(v) <= frameSample && lopsided(q, top) {
		best.width = 0 // there was no sample, but it is worth a look at all
	}
	return f, q, top, best.width
}

// modeCosts are the estimated sizes of v in each mode.
type modeCosts struct {
	plain, delta, trend, rates sampleCost
	slope                      uint64 // of trend; 0: it makes no sense
}

func costsOf(s *wordScratch, v []uint64, st *wordStats) (c modeCosts) {
	span, dspan := uint64(st.max-st.min), uint64(st.dmax-st.dmin)
	n := len(v)
	c.rates.bits = math.MaxInt32
	if n <= frameSample {
		c.plain = sampleCost{bits: uint(n) * width(span), width: width(span)}
		c.delta = sampleCost{bits: uint(n-1) * width(dspan), width: width(dspan)}
		if n >= minRates && c.delta.paysOver(c.plain) {
			w := width(rateSpan(v))
			c.rates = sampleCost{bits: uint(n-2)*w + rateHeader, width: w}
		}
		return c
	}
	stride := (n - 1 + frameSample - 1) / frameSample
	x, y := s.a[:0], s.b[:0]
	var g uint64
	for i := 1; i < n; i += stride {
		x = append(x, v[i]-uint64(st.min))
		y = append(y, v[i]-v[i-1])
		if g != 1 {
			g = gcd(v[i]-uint64(st.min), g)
		}
	}
	// A common factor shortens all modes alike; without it the
	// comparison in proportion is wrong.
	less := uint(0)
	if g > 1 {
		less = width(g) - 1
	}
	c.plain = costOf(x, n, span, less)
	if span < 1<<62 && g < maxSlopeFactor {
		c.slope = meanSlope(v, max(g, 1))
		for i := range x {
			x[i] -= c.slope * uint64(1+i*stride)
		}
		c.trend = costOf(x, n, spanOf(x), less)
	}
	if c.delta = costOf(y, n, dspan, less); c.delta.paysOver(c.plain) {
		z := y[:0]
		for i := 1 + stride; i < n; i += stride {
			z = append(z, v[i]-2*v[i-1]+v[i-2])
		}
		c.rates = costOf(z, n, spanOf(z), less)
	}
	return c
}

// offsetsOf sets base, first and rate of a frame with a mode, and the slope as first
// if that is trend. It returns the offsets of v, in s.a, and their largest.
func (f *frame) offsetsOf(s *wordScratch, v []uint64, st *wordStats) (q []uint64, top uint64) {
	q = s.a[:len(v)-f.lead()]
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	switch f.mode {
	case modePlain:
		f.base = uint64(st.min)
		for i, x := range v {
			q[i] = x - f.base
		}
		return q, uint64(st.max - st.min)
	case modeDelta:
		f.first, f.base = v[0], uint64(st.dmin)
		prev := v[0] + f.base
		for i, x := range v[1:] {
			q[i] = x - prev
			prev = x + f.base
		}
		return q, uint64(st.dmax - st.dmin)
	case modeRates:
		f.first, f.rate = v[0], v[1]-v[0]
		prev, rate := v[1], f.rate
		for i, x := range v[2:] {
			d := x - prev
			r := int64(d - rate)
			lo, hi = min(lo, r), max(hi, r)
			q[i] = uint64(r)
			prev, rate = x, d
		}
	case modeTrend:
		var at uint64
		for i, x := range v {
			x -= at
			lo, hi = min(lo, int64(x)), max(hi, int64(x))
			q[i] = x
			at += f.first
		}
	}
	f.base = uint64(lo)
	for i := range q {
		q[i] -= f.base
	}
	return q, uint64(hi - lo)
}

// lopsided reports whether the mean of q is so near to 0 or to top, the
// largest, that a few outliers may have made the range.
func lopsided(q []uint64, top uint64) bool {
	if top >= 1<<50 {
		return true // the sum might overflow
	}
	var sum uint64
	for _, x := range q {
		sum += x
	}
	mean := sum / uint64(len(q))
	return mean < top/8 || mean > top-top/8
}

// meanSlope returns the mean step of v, rounded to a multiple of g, which is
// less than maxSlopeFactor. The values span less than 1<<62.
func meanSlope(v []uint64, g uint64) uint64 {
	steps := int64(len(v)-1) * int64(g)
	rise := int64(v[len(v)-1] - v[0])
	k := rise / steps
	if r := rise % steps; 2*r > steps {
		k++
	} else if -2*r > steps {
		k--
	}
	return uint64(k) * g
}

// rateHeader is about what the header of delta-of-delta takes beyond that of
// delta, in bits.
const rateHeader = 8

// rateSpan returns the range of the differences of differences of v.
func rateSpan(v []uint64) uint64 {
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	prev, rate := v[1], v[1]-v[0]
	for _, x := range v[2:] {
		d := x - prev
		lo, hi = min(lo, int64(d-rate)), max(hi, int64(d-rate))
		prev, rate = x, d
	}
	return uint64(hi - lo)
}

func spanOf(v []uint64) uint64 {
	lo, hi := int64(v[0]), int64(v[0])
	for _, x := range v {
		lo, hi = min(lo, int64(x)), max(hi, int64(x))
	}
	return uint64(hi - lo)
}

// commonFactor returns the greatest common divisor of q, whose largest is top.
func commonFactor(q []uint64, top uint64) uint64 {
	g := top
	if g == 0 {
		return 1
	}
	d := divisorOf(g)
	for _, x := range q {
		if d.quotient(x) <= d.most {
			continue
		}
		if g = gcd(x, g); g == 1 {
			break
		}
		d = divisorOf(g)
	}
	return g
}

// divisor divides exactly: by multiplying with the inverse of its odd part
// modulo 2^64 and rotating by the rest. The result is at most most if and only
// if there was no remainder.
type divisor struct {
	inverse, most uint64
	shift         int
}

func divisorOf(g uint64) divisor {
	shift := bits.TrailingZeros64(g)
	odd := g >> shift
	x := odd // right in 3 bits; each round doubles them (Newton)
	for range 5 {
		x *= 2 - odd*x
	}
	return divisor{inverse: x, most: ^uint64(0) / g, shift: shift}
}

func (d *divisor) quotient(x uint64) uint64 { return bits.RotateLeft64(x*d.inverse, -d.shift) }

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// divideAll divides q by a factor of all of it and returns top divided.
func divideAll(q []uint64, factor, top uint64) uint64 {
	d := divisorOf(factor)
	for i, x := range q {
		q[i] = d.quotient(x)
	}
	return top / factor
}
