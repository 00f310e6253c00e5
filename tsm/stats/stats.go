package stats

import (
	"encoding/binary"
	"math"
	"math/bits"

	"tsdbd/internal/binio"
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// A statistics record is a length byte and as many bytes:
//
//	flags u8 | [count, firstRow, rows-1-lastRow varints if partial] | by type
//
// Length 0 means that the column has no value. By type:
//
//	integer, unsigned: min, then unless constant max-min, first-min, last-min,
//	    then sum-count*min, all varints, min and sum zigzag for integers
//	float: as decimals m/10^e (e in the flags' top bits) min zigzag, then unless
//	    constant the differences to it; or four float64; then the sum as a decimal
//	    difference or a float64; then the sum's error if it is not zero
//	boolean: a byte of bits min, max, first, last, then the sum
//	string: nothing
const (
	statPartial  = 1 << 0 // some rows have no value
	statConstant = 1 << 1 // max, first and last equal min bit for bit
	statDecimal  = 1 << 2 // floats: values are decimals
	statRawSum   = 1 << 3 // floats: the sum is a float64
	statError    = 1 << 4 // floats: the sum's error follows
	statExponent = 5      // floats: shift of the decimal exponent, 0 to 7
)

// maxStatRecord bounds a record: its length byte must not overflow.
const maxStatRecord = 127

// Exponents is the number of exponents of decimals.
const Exponents = 8

var powersOfTen = [Exponents]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7}

// Decimal returns v*10^e as an integer if dividing it by 10^e gives v back
// bit for bit.
func Decimal(v float64, e int) (int64, bool) {
	s := math.RoundToEven(v * powersOfTen[e])
	if !(math.Abs(s) < 1<<53) {
		return 0, false
	}
	m := int64(s)
	return m, math.Float64bits(float64(m)/powersOfTen[e]) == math.Float64bits(v)
}

// OfDecimal returns m/10^e.
func OfDecimal(m int64, e int) float64 { return float64(m) / powersOfTen[e] }

// sumFloats adds up v with about 106 bits; the result is the same on every machine.
// A sum that is not finite has no error term.
func sumFloats(v []float64) (sum, lost float64) {
	sum, lost = vector.SumFloats(v)
	sum, lost = vector.TwoSum(sum, lost)
	if math.IsInf(sum, 0) || math.IsNaN(sum) || math.IsNaN(lost) {
		sum = 0
		for _, x := range v {
			sum += x
		}
		if math.IsNaN(sum) {
			sum = math.NaN() // processors differ in the bits of a NaN that they compute
		}
		return sum, 0
	}
	if sum == 0 {
		return 0, 0 // no negative zero
	}
	return sum, lost
}

// Of computes Count, Min, Max, First, Last, Sum and SumError of the
// values of v, which has at least one value and no null.
// NaN takes no part in Min and Max unless there is nothing else.
func Of(v *column.Vector) scan.Stats {
	s := scan.Stats{Count: v.Len()}
	switch v.Type {
	case model.Float:
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, x := range v.Floats {
			if x < lo {
				lo = x
			}
			if x > hi {
				hi = x
			}
		}
		if lo > hi { // only NaN
			lo, hi = math.NaN(), math.NaN()
		}
		s.Min, s.Max = math.Float64bits(lo), math.Float64bits(hi)
		s.First, s.Last = math.Float64bits(v.Floats[0]), math.Float64bits(v.Floats[s.Count-1])
		sum, lost := sumFloats(v.Floats)
		s.Sum, s.SumError = math.Float64bits(sum), lost
	case model.Integer:
		lo, hi := v.Ints[0], v.Ints[0]
		var sum int64
		for _, x := range v.Ints {
			lo, hi = min(lo, x), max(hi, x)
			sum += x
		}
		s.Min, s.Max, s.Sum = uint64(lo), uint64(hi), uint64(sum)
		s.First, s.Last = uint64(v.Ints[0]), uint64(v.Ints[s.Count-1])
	case model.Unsigned:
		lo, hi := v.Uints[0], v.Uints[0]
		for _, x := range v.Uints {
			lo, hi = min(lo, x), max(hi, x)
			s.Sum += x
		}
		s.Min, s.Max = lo, hi
		s.First, s.Last = v.Uints[0], v.Uints[s.Count-1]
	case model.Boolean:
		for _, x := range v.Bools {
			s.Sum += BoolWord(x)
		}
		s.Min = BoolWord(s.Sum == uint64(s.Count))
		s.Max = BoolWord(s.Sum > 0)
		s.First, s.Last = BoolWord(v.Bools[0]), BoolWord(v.Bools[s.Count-1])
	}
	return s
}

// BoolWord returns the word that statistics have for a boolean.
func BoolWord(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Append appends the record of s for a column of rows rows.
func Append(dst []byte, t model.FieldType, s *scan.Stats, rows int) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if s.Count == 0 {
		return dst
	}
	dst = append(dst, 0)
	var flags byte
	if s.Count < rows {
		flags |= statPartial
		dst = binary.AppendUvarint(dst, uint64(s.Count))
		dst = binary.AppendUvarint(dst, uint64(s.FirstRow))
		dst = binary.AppendUvarint(dst, uint64(rows-1-s.LastRow))
	}
	constant := s.Min == s.Max && s.Min == s.First && s.Min == s.Last
	if constant && t != model.Boolean && t != model.String {
		flags |= statConstant
	}
	switch t {
	case model.Integer, model.Unsigned:
		rest := s.Sum - uint64(s.Count)*s.Min // wraps, and back when decoded
		if t == model.Integer {
			dst = binary.AppendUvarint(dst, binio.ZigZag(int64(s.Min)))
			rest = binio.ZigZag(int64(rest))
		} else {
			dst = binary.AppendUvarint(dst, s.Min)
		}
		if !constant {
			dst = binary.AppendUvarint(dst, s.Max-s.Min)
			dst = binary.AppendUvarint(dst, s.First-s.Min)
			dst = binary.AppendUvarint(dst, s.Last-s.Min)
		}
		dst = binary.AppendUvarint(dst, rest)
	case model.Float:
		dst, flags = appendFloatStats(dst, flags, s, constant)
	case model.Boolean:
		dst = append(dst, byte(s.Min|s.Max<<1|s.First<<2|s.Last<<3))
		dst = binary.AppendUvarint(dst, s.Sum)
	}
	dst[at], dst[at+1] = byte(len(dst)-at-1), flags
	return dst
}

func appendFloatStats(dst []byte, flags byte, s *scan.Stats, constant bool) ([]byte, byte) {
	words := [4]uint64{s.Min, s.Max, s.First, s.Last}
	sum := math.Float64frombits(s.Sum)
	var m [4]int64
	e := decimalExponent(&words, &m)
	if e >= 0 {
		flags |= statDecimal | byte(e)<<statExponent
		dst = binary.AppendUvarint(dst, binio.ZigZag(m[0]))
		if !constant {
			// Decimals are no NaN, so the minimum is not greater than any.
			for _, x := range m[1:] {
				dst = binary.AppendUvarint(dst, uint64(x-m[0]))
			}
		}
	} else if constant {
		dst = binary.LittleEndian.AppendUint64(dst, s.Min)
	} else {
		for _, w := range words {
			dst = binary.LittleEndian.AppendUint64(dst, w)
		}
	}
	if ms, ok := int64(0), false; e >= 0 {
		if ms, ok = Decimal(sum, e); ok {
			dst = binary.AppendUvarint(dst, binio.ZigZag(ms-int64(s.Count)*m[0]))
		} else {
			flags |= statRawSum
		}
	} else {
		flags |= statRawSum
	}
	if flags&statRawSum != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, s.Sum)
	}
	if s.SumError != 0 {
		// The error is a multiple of the smallest value's last bit, so its
		// mantissa ends in zeros: reversed, they are leading zeros.
		flags |= statError
		dst = binary.AppendUvarint(dst, bits.Reverse64(math.Float64bits(s.SumError)))
	}
	return dst, flags
}

// decimalExponent returns the smallest exponent at which all words are
// decimals, setting m to them, or -1.
func decimalExponent(words *[4]uint64, m *[4]int64) int {
next:
	for e := range powersOfTen {
		for i, w := range words {
			var ok bool
			if m[i], ok = Decimal(math.Float64frombits(w), e); !ok {
				continue next
			}
		}
		return e
	}
	return -1
}

// Record returns the record at b[off:], without its length byte, and the
// offset after it, or -1.
func Record(b []byte, off int) ([]byte, int) {
	if uint(off) >= uint(len(b)) {
		return nil, -1
	}
	n := int(b[off])
	if n > maxStatRecord || n > len(b)-off-1 {
		return nil, -1
	}
	return b[off+1 : off+1+n], off + 1 + n
}

// recordReader reads the numbers of a record. It may read beyond the record,
// whose end the caller checks, but not beyond b; once it fails it is past b's
// end for good.
type recordReader struct {
	b   []byte
	off int
}

func (r *recordReader) next() uint64 {
	if off := r.off; off < len(r.b) && r.b[off] < 0x80 {
		r.off = off + 1
		return uint64(r.b[off])
	}
	return r.long()
}

// long reads a varint of several bytes: up to 8 at once, without branches on
// their number, by squeezing the top bits out of a word.
//
//go:noinline
func (r *recordReader) long() uint64 {
	if len(r.b)-r.off >= 8 {
		x := binary.LittleEndian.Uint64(r.b[r.off:])
		if last := ^x & 0x8080808080808080; last != 0 {
			r.off += bits.TrailingZeros64(last)>>3 + 1
			x &= (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7f
			x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
			x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
			return x&0x0fffffff | x&0x0fffffff00000000>>4
		}
	}
	if r.off < len(r.b) {
		if v, n := binary.Uvarint(r.b[r.off:]); n > 0 {
			r.off += n
			return v
		}
	}
	r.off = len(r.b) + 1
	return 0
}

// skip passes over n varints.
func (r *recordReader) skip(n int) {
	for n > 0 && len(r.b)-r.off >= 8 {
		last := ^binary.LittleEndian.Uint64(r.b[r.off:]) & 0x8080808080808080
		if have := bits.OnesCount64(last); have < n {
			n -= have
			r.off += 8
			continue
		}
		for ; n > 1; n-- {
			last &= last - 1
		}
		r.off += bits.TrailingZeros64(last)>>3 + 1
		return
	}
	for ; n > 0; n-- {
		r.next()
	}
}

func (r *recordReader) signed() int64 { return binio.UnZigZag(r.next()) }

func (r *recordReader) word() uint64 {
	if len(r.b)-r.off < 8 {
		r.off = len(r.b) + 1
		return 0
	}
	r.off += 8
	return binary.LittleEndian.Uint64(r.b[r.off-8:])
}

// Decode decodes a record for a column of rows rows into s and reports
// whether it is well-formed.
func Decode(s *scan.Stats, rec []byte, t model.FieldType, rows int) bool {
	*s = scan.Stats{}
	if len(rec) == 0 {
		return true
	}
	flags := rec[0]
	r := recordReader{rec[:cap(rec)], 1}
	s.Count, s.LastRow = rows, rows-1
	if flags&statPartial != 0 && !r.presence(s, rows) {
		return false
	}
	constant := flags&statConstant != 0
	switch t {
	case model.Integer, model.Unsigned:
		low := r.next()
		if t == model.Integer {
			low = uint64(binio.UnZigZag(low))
		}
		s.Min, s.Max, s.First, s.Last = low, low, low, low
		if !constant {
			s.Max += r.next()
			s.First += r.next()
			s.Last += r.next()
		}
		r.intSum(s, t, low)
	case model.Float:
		low, p := int64(0), powersOfTen[flags>>statExponent]
		if flags&statDecimal != 0 {
			low = r.signed()
			s.Min = math.Float64bits(float64(low) / p)
			s.Max, s.First, s.Last = s.Min, s.Min, s.Min
			if !constant {
				s.Max = math.Float64bits(float64(low+int64(r.next())) / p)
				s.First = math.Float64bits(float64(low+int64(r.next())) / p)
				s.Last = math.Float64bits(float64(low+int64(r.next())) / p)
			}
		} else {
			s.Min = r.word()
			s.Max, s.First, s.Last = s.Min, s.Min, s.Min
			if !constant {
				s.Max, s.First, s.Last = r.word(), r.word(), r.word()
			}
		}
		r.floatSum(s, flags, low, p)
	case model.Boolean:
		w := r.next()
		s.Min, s.Max, s.First, s.Last = w&1, w>>1&1, w>>2&1, w>>3&1
		s.Sum = r.next()
	}
	return r.off == len(rec)
}

// DecodeSum sets Count, Sum and SumError, and of integers Min and Max, as decodeStats
// does. It passes over the numbers that they do not need.
func DecodeSum(s *scan.Stats, rec []byte, t model.FieldType, rows int) bool {
	if s.Count, s.Sum, s.SumError = 0, 0, 0; len(rec) == 0 {
		return true
	}
	flags := rec[0]
	r := recordReader{rec[:cap(rec)], 1}
	s.Count = rows
	if flags&statPartial != 0 && !r.presence(s, rows) {
		return false
	}
	others := 3
	if flags&statConstant != 0 {
		others = 0
	}
	switch t {
	case model.Integer, model.Unsigned:
		low := r.next()
		if t == model.Integer {
			low = uint64(binio.UnZigZag(low))
		}
		s.Min, s.Max = low, low
		if others > 0 {
			s.Max += r.next()
			r.skip(others - 1)
		}
		r.intSum(s, t, low)
	case model.Float:
		low := int64(0)
		if flags&statDecimal != 0 {
			low = r.signed()
			r.skip(others)
		} else {
			r.off += 8 * (1 + others)
		}
		r.floatSum(s, flags, low, powersOfTen[flags>>statExponent])
	case model.Boolean:
		r.skip(1)
		s.Sum = r.next()
	}
	return r.off == len(rec)
}

// MayHaveNaN reports whether a column of floats with the record rec may have a
// NaN. The sum of such a column is NaN, as is one of infinities of both signs.
func MayHaveNaN(rec []byte, rows int) bool {
	if len(rec) == 0 || rec[0]&statRawSum == 0 {
		return false
	}
	var s scan.Stats
	return !DecodeSum(&s, rec, model.Float, rows) || math.IsNaN(math.Float64frombits(s.Sum))
}

// AllValid reports whether a column with the record rec has a value in every row.
func AllValid(rec []byte) bool { return len(rec) > 0 && rec[0]&statPartial == 0 }

// presence sets which of the rows of a partial column have values.
func (r *recordReader) presence(s *scan.Stats, rows int) bool {
	count, first, last := r.next(), r.next(), r.next()
	if n := uint64(rows); count == 0 || count >= n || first >= n || last >= n || first+last >= n || count > n-first-last {
		return false
	}
	s.Count, s.FirstRow, s.LastRow = int(count), int(first), rows-1-int(last)
	return true
}

func (r *recordReader) intSum(s *scan.Stats, t model.FieldType, low uint64) {
	rest := r.next()
	if t == model.Integer {
		rest = uint64(binio.UnZigZag(rest))
	}
	s.Sum = rest + uint64(s.Count)*low
}

// floatSum reads sum and error; low is the minimum of decimals, p their power.
func (r *recordReader) floatSum(s *scan.Stats, flags byte, low int64, p float64) {
	if flags&statRawSum != 0 {
		s.Sum = r.word()
	} else {
		s.Sum = math.Float64bits(float64(r.signed()+int64(s.Count)*low) / p)
	}
	if flags&statError != 0 {
		s.SumError = math.Float64frombits(bits.Reverse64(r.next()))
	}
}
