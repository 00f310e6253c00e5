package codec

import (
	"encoding/binary"
	"slices"

	"tsdbd/internal/binio"
)

// Integer blocks hold 64-bit words. Arithmetic wraps, so signed and unsigned
// values share everything; only "small" is taken as small in magnitude of the
// signed word. Decimal floats, run lengths, dictionary ids and string lengths
// are integer blocks inside other blocks.

// minRuns is the shortest block worth writing in runs.
const minRuns = 16

// wordStats is what one pass over a block of words finds.
type wordStats struct {
	min, max   int64 // of the values
	dmin, dmax int64 // of the wrapping differences of neighbours
}

func wordStatsOf(v []uint64) (st wordStats) {
	st.min, st.max = int64(v[0]), int64(v[0])
	if len(v) == 1 {
		return st
	}
	mn, mx := st.min, st.max
	dmin := int64(v[1] - v[0])
	dmax := dmin
	prev := v[0]
	for _, x := range v[1:] {
		d := int64(x - prev)
		dmin, dmax = min(dmin, d), max(dmax, d)
		mn, mx = min(mn, int64(x)), max(mx, int64(x))
		prev = x
	}
	return wordStats{min: mn, max: mx, dmin: dmin, dmax: dmax}
}

// findRuns finds the runs of equal values in v and leaves their values in s.a
// and their lengths less one in s.b. It gives up with 0 above most runs.
func (s *wordScratch) findRuns(v []uint64, most int) int {
	r, prev := 0, v[0]
	for at := 0; at < len(v) && r <= most; {
		end := min(at+128, len(v))
		for i, x := range v[at:end] {
			change := 0
			if x != prev {
				change = 1
			}
			r += change
			// Without a branch: the last store to each place stays.
			s.b[r&(MaxValues-1)] = uint64(at + i)
			prev = x
		}
		at = end
	}
	if r++; r > most {
		return 0
	}
	before := ^uint64(0)
	for i, last := range s.b[:r] {
		s.a[i], s.b[i], before = v[last], last-before-1, last
	}
	return r
}

// appendWords appends the integer block of v.
func appendWords(dst []byte, v []uint64, c choice) []byte {
	return appendWithRuns(dst, v, c, appendPlainWords)
}

// appendWithRuns appends v in runs, the values of the runs as plain does, or
// all of v as plain does, whichever is smaller.
func appendWithRuns(dst []byte, v []uint64, c choice, plain func([]byte, []uint64, choice) []byte) []byte {
	if allEqual(v) {
		return plain(dst, v[:1], c)
	}
	if len(v) < minRuns {
		return plain(dst, v, c)
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	runs := s.findRuns(v, len(v)/8)
	if runs == 0 {
		return plain(dst, v, c)
	}
	at := len(dst)
	dst = append(dst, encRuns)
	dst = binary.AppendUvarint(dst, uint64(runs))
	values := len(dst)
	dst = plain(dst, s.a[:runs], c)
	dst = insertUvarint(dst, values, uint64(len(dst)-values))
	dst = appendPlainWords(dst, s.b[:runs], smallest)
	// Few runs are hardly ever smaller otherwise; do not try.
	if runs <= len(v)/16 {
		return dst
	}
	end := len(dst)
	dst = plain(dst, v, c)
	if len(dst)-end < end-at {
		return append(dst[:at], dst[end:]...)
	}
	return dst[:end]
}

func allEqual[T comparable](v []T) bool {
	for _, x := range v {
		if x != v[0] {
			return false
		}
	}
	return true
}

// appendPlainWords is appendWords without runs.
func appendPlainWords(dst []byte, v []uint64, c choice) []byte {
	st := wordStatsOf(v)
	if st.min == st.max {
		return binary.AppendUvarint(append(dst, encConst), binio.ZigZag(st.min))
	}
	at := len(dst)
	if st.dmin == st.dmax {
		dst = appendLinear(dst, v[0], uint64(st.dmin))
	} else {
		dst = appendFrame(dst, v, &st, c)
	}
	if len(dst)-at <= 8*len(v) {
		return dst
	}
	return appendRaw(dst[:at], v)
}

// appendRaw appends v word by word.
func appendRaw(dst []byte, v []uint64) []byte {
	dst = slices.Grow(append(dst, encRaw), 8*len(v))
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return dst
}

func decodeRaw(dst []uint64, block []byte) error {
	if len(block) != 1+8*len(dst) {
		return corrupt("raw length")
	}
	for i := range dst {
		dst[i] = binary.LittleEndian.Uint64(block[1+8*i:])
	}
	return nil
}

// decodePlainWords is decodeWords for blocks other than runs, which do not nest.
func decodePlainWords(dst []uint64, block []byte) error {
	if len(block) > 0 && block[0] == encRuns {
		return corrupt("runs of runs")
	}
	return decodeWords(dst, block)
}

// pow10 are the powers of ten that a word holds.
var pow10 = func() (p [19]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// appendLinear appends start, start+step, ...: a power of ten common to both,
// then both divided by it.
func appendLinear(dst []byte, start, step uint64) []byte {
	a, b := int64(start), int64(step)
	e := 0
	for e < len(pow10)-1 && a%10 == 0 && b%10 == 0 {
		a, b, e = a/10, b/10, e+1
	}
	dst = append(dst, encLinear, byte(e))
	dst = binary.AppendUvarint(dst, binio.ZigZag(a))
	return binary.AppendUvarint(dst, binio.ZigZag(b))
}

// decodeLinear decodes a const or linear block.
func decodeLinear(dst []uint64, block []byte) error {
	d := binio.NewDecoder(block[1:])
	start, step := uint64(0), uint64(0)
	if block[0] == encConst {
		start = uint64(d.Varint())
	} else {
		e := d.Byte()
		if int(e) >= len(pow10) {
			return corrupt("power of ten")
		}
		start, step = uint64(d.Varint())*pow10[e], uint64(d.Varint())*pow10[e]
	}
	if d.Err() != nil {
		return d.Err()
	}
	if d.Len() != 0 {
		return corrupt("trailing bytes")
	}
	fillLinear(dst, start, step)
	return nil
}

func fillLinear(dst []uint64, start, step uint64) {
	for len(dst) >= 4 {
		d := (*[4]uint64)(dst)
		d[0], d[1], d[2], d[3] = start, start+step, start+2*step, start+3*step
		start += 4 * step
		dst = dst[4:]
	}
	for i := range dst {
		dst[i] = start
		start += step
	}
}

// insertUvarint inserts a varint at offset at of dst.
func insertUvarint(dst []byte, at int, u uint64) []byte {
	var b [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(b[:], u)
	dst = append(dst, b[:k]...)
	copy(dst[at+k:], dst[at:])
	copy(dst[at:], b[:k])
	return dst
}

// decodeLengths decodes run lengths into lengths and checks that they sum to n.
func decodeLengths(lengths []uint64, block []byte, n int) error {
	if err := decodePlainWords(lengths, block); err != nil {
		return err
	}
	left := uint64(n)
	for i, l := range lengths {
		if l >= left {
			return corrupt("run length")
		}
		lengths[i] = l + 1
		left -= l + 1
	}
	if left != 0 {
		return corrupt("run lengths")
	}
	return nil
}

func decodeWordRuns(dst []uint64, block []byte) error {
	return decodeRuns(dst, block, decodePlainWords)
}

// decodeRuns decodes runs, whose values plain decodes.
func decodeRuns(dst []uint64, block []byte, plain func(dst []uint64, block []byte) error) error {
	runs, values, lengths, err := readPair(block)
	if err != nil {
		return err
	}
	if runs < 1 || runs > uint64(len(dst)) {
		return corrupt("number of runs")
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	if err := plain(s.a[:runs], values); err != nil {
		return err
	}
	if err := decodeLengths(s.b[:runs], lengths, len(dst)); err != nil {
		return err
	}
	for i, x := range s.a[:runs] {
		run := dst[:s.b[i]]
		for j := range run {
			run[j] = x
		}
		dst = dst[len(run):]
	}
	return nil
}
