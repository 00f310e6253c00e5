package codec

import (
	"math"
	"slices"

	"tsdbd/internal/binio"
)

// A quotient block writes doubles that were computed as quotients of integers, such as
// percentages of clock ticks:
//
//	13 | size | block of the dividends | size | block of the divisors | block of the corrections
//
// A value is the double nearest to dividend / divisor, and the correction is added to its bits: so
// many units in the last place it is off, because the program that made it rounded
// more than once.
const (
	// percent is what senders multiply a quotient with.
	percent = 100
	// maxDivisor is the largest divisor that is looked for.
	maxDivisor = 1 << 16
	// nearFraction is how far a fraction may be from a value, in units of percent: the difference of two clocks that
	// ran for a year is off by as much. clearFraction is how far in units of one over the square of
	// its divisor: a fraction that is farther away says little about the value.
	nearFraction  = 1.0 / (1 << 30)
	clearFraction = 1.0 / 8
	// maxFraction bounds the values that are looked at, in units of percent.
	maxFraction = 1 << 20
	// quotientSample is how many values tell whether a block has quotients.
	quotientSample = 32
)

// reduced returns the divisor of the simplest fraction near x by its continued fraction, 0 if there
// is none. It sums integers that a double holds, so all machines find the same.
func reduced(x float64) int64 {
	if !(x < maxFraction) {
		return 0
	}
	p, q, priorP, priorQ := 1.0, 0.0, 0.0, 1.0
	for rest := x; ; {
		whole := math.Floor(rest)
		p, priorP = whole*p+priorP, p
		if q, priorQ = whole*q+priorQ, q; q > maxDivisor {
			return 0
		}
		if d := math.Abs(x - p/q); d <= nearFraction && d*q*q <= clearFraction {
			return int64(q)
		}
		rest = 1 / (rest - whole)
	}
}

// usualDivisor returns the divisor of most values by a sample, and false if many values are no
// quotients. Two thirds of fractions cannot be reduced much, so it is above the median.
func usualDivisor(w []uint64) (int64, bool) {
	var room [quotientSample]int64
	found, none := room[:0], 0
	stride := (len(w) + quotientSample - 1) / quotientSample
	for i := 0; i < len(w); i += stride {
		switch q := reduced(math.Abs(math.Float64frombits(w[i])) / percent); {
		case q == 0:
			none++
		case q > 1:
			found = append(found, q)
		}
	}
	if none >= max(len(found)/8, 1) || len(found) == 0 {
		return 0, false
	}
	slices.Sort(found)
	return found[len(found)*2/3], true
}

// appendQuotients appends the quotient block of doubles if it takes at most limit bytes.
func appendQuotients(dst []byte, w []uint64, limit int) ([]byte, bool) {
	usual, ok := usualDivisor(w)
	if !ok {
		return dst, false
	}
	at := len(dst)
	if dst = appendQuotientsOf(dst, w, usual); len(dst)-at > limit {
		return dst[:at], false
	}
	return dst, true
}

// appendQuotientsOf appends the quotient block of any doubles. The divisors are near the usual one.
func appendQuotientsOf(dst []byte, w []uint64, usual int64) []byte {
	s, t := wordPool.Get().(*wordScratch), wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	defer wordPool.Put(t)
	dividends, divisors, corrections := s.a[:len(w)], s.b[:len(w)], t.a[:len(w)]
	for i, u := range w {
		v := math.Float64frombits(u)
		x, divisor, dividend := math.Abs(v)/percent, usual, int64(0)
		if q := reduced(x); q > 0 {
			divisor = q * max((usual+q/2)/q, 1)
		}
		if x < maxFraction {
			dividend = percent * int64(math.Round(math.Copysign(x, v)*float64(divisor)))
		}
		dividends[i], divisors[i] = uint64(dividend), uint64(divisor)
		corrections[i] = u - math.Float64bits(float64(dividend)/float64(divisor))
	}
	dst = append(dst, encQuotient)
	for _, v := range [][]uint64{dividends, divisors} {
		begin := len(dst)
		dst = appendSmallest(dst, v)
		dst = insertUvarint(dst, begin, uint64(len(dst)-begin))
	}
	return appendSmallest(dst, corrections)
}

// appendSmallest appends the integer block of v, in its dense form if there is one.
func appendSmallest(dst []byte, v []uint64) []byte {
	block := appendWords(nil, v, smallest)
	if dense, ok, err := AppendDense(dst, block, len(v), Integers); ok && err == nil {
		return dense
	}
	return append(dst, block...)
}

func decodeQuotients(dst []uint64, block []byte) error {
	d := binio.NewDecoder(block[1:])
	first := d.Bytes(d.Count(1))
	second := d.Bytes(d.Count(1))
	third := d.Bytes(d.Len())
	if d.Err() != nil {
		return d.Err()
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	divisors, corrections := s.a[:len(dst)], s.b[:len(dst)]
	if err := decodeWords(dst, first); err != nil {
		return err
	}
	if err := decodeWords(divisors, second); err != nil {
		return err
	}
	if err := decodeWords(corrections, third); err != nil {
		return err
	}
	for i, divisor := range divisors {
		if divisor == 0 {
			return corrupt("divisor")
		}
		dst[i] = math.Float64bits(float64(int64(dst[i]))/float64(int64(divisor))) + corrections[i]
	}
	return nil
}
