package partial

import (
	"cmp"
	"math"
	"math/bits"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Kind is a partial aggregate. Each has a merge that does not show how rows
// were cut into parts: exact, or compensated. The numbers are part of the format of
// encoded states and must not change.
type Kind uint8

const (
	Count  Kind = iota
	Sum         // of integers in 128 bits; floats carry what the sum lost
	Square      // compensated sum of squares, as floats
	Min         // earliest of the smallest
	Max         // earliest of the largest
	First
	Last
	Tally         // the distinct values
	Sketch        // an estimate of how many distinct values there are
	Top           // the n largest
	Bottom        // the n smallest
	Sample        // n at random
	Ranks         // all values, for those of a rank
	Increase      // the sum of steps
	Union         // of sketches that are stored as text
	Quantiles     // an estimate of values of a rank
	QuantileUnion // of sketches of quantiles that are stored as text
)

// Kinds holds the properties of the kinds.
var Kinds = [...]struct {
	Stats statsUse // what a chunk's statistics can give it
	What  string   // its values, if they have no statistics
	Timed bool     // keeps the time of a value whether asked for or not
	large bool     // grows with the values or rows of a window
	// ordered says that the order of rows of equal time shows.
	ordered bool
	// Stored is the function whose values, of windows and of series, can be put together to
	// the aggregate; "": none.
	Stored string
}{
	Count:         {Stats: countOfStats, Stored: "count"},
	Sum:           {Stats: sumOfStats, Stored: "sum"},
	Square:        {What: "squares"},
	Min:           {Stats: AllOfStats, Stored: "min"},
	Max:           {Stats: AllOfStats, Stored: "max"},
	First:         {Stats: AllOfStats, Timed: true, Stored: "first"},
	Last:          {Stats: AllOfStats, Timed: true, Stored: "last"},
	Tally:         {What: "distinct values", large: true},
	Sketch:        {What: "sketches", large: true, Stored: "distinct"},
	Top:           {What: "chosen rows", Timed: true, large: true, ordered: true},
	Bottom:        {What: "chosen rows", Timed: true, large: true, ordered: true},
	Sample:        {What: "chosen rows", Timed: true, large: true, ordered: true},
	Ranks:         {What: "ranks", large: true, Stored: "percentile"},
	Increase:      {What: "steps", Timed: true, Stored: "increase"},
	Union:         {What: "sketches", Timed: true, large: true},
	Quantiles:     {What: "sketches", large: true},
	QuantileUnion: {What: "sketches", Timed: true, large: true},
}

// statsUse says what of a chunk's statistics a slot reads.
type statsUse uint8

const (
	NoStats statsUse = iota
	countOfStats
	sumOfStats
	AllOfStats
)

// Slot is one partial aggregate of one column.
type Slot struct {
	Kind   Kind
	Col    int // of Plan.Refs
	Type   model.FieldType
	Counts int    // of Plan.Refs, plus one: how many values a row stands for; 0: one
	Timed  bool   // keeps the times of values
	N      int    // rows that are kept
	Unique bool   // of those with the same tags only the best
	Tags   int    // kept columns, at the start, that are these tags
	Seed   uint64 // of a sample
}

// State is the partial aggregate of one slot in one window of one group. N is the
// number of values, of an increase that of steps, and of selectors 1 or Tied. If N is 0, nothing else is set.
//
//   - Of a sum of floats, A holds the bits of the sum, and B the bits of the float that
//     it lost. A sum of integers is the 128 bits of B and A, so that A alone is the sum
//     that wraps.
//   - Of a tally, a sketch, a union or a pick, A is its place in the table. Of ranks it is the place
//     of the last run of values, or noRun, and B that of a sketch of further values, plus one, or 0.
//     A sketch of quantiles is like ranks without a run.
//   - Of another selector, T is the time of the value. A holds the bits of the value,
//     or its place in Table.Texts if it is a string. B is the place of the row's other
//     columns in Table.Aux, plus one, or 0.
type State struct {
	N    int64
	T    int64
	A, B uint64
}

// Tied is the N of a first or last for which several rows competed at its time.
const Tied = 2

// AddFloat adds hi+lo to a compensated sum.
func (st *State) AddFloat(hi, lo float64) {
	s, e := vector.TwoSum(math.Float64frombits(st.A), hi)
	e += math.Float64frombits(st.B) + lo
	if s-s == 0 { // finite: keep hi the rounded sum
		s, e = fastTwoSum(s, e)
	}
	st.A, st.B = math.Float64bits(s), math.Float64bits(e)
}

// fastTwoSum is vector.TwoSum for |a| >= |b|.
func fastTwoSum(a, b float64) (s, e float64) {
	s = a + b
	return s, b - (s - a)
}

// Float returns the value of a compensated sum.
func (st *State) Float() float64 {
	hi := math.Float64frombits(st.A)
	if hi-hi != 0 {
		return hi
	}
	return hi + math.Float64frombits(st.B)
}

// AddWide adds an integer of 128 bits to a sum of integers.
func (st *State) AddWide(hi, lo uint64) {
	var carry uint64
	st.A, carry = bits.Add64(st.A, lo, 0)
	st.B, _ = bits.Add64(st.B, hi, carry)
}

// SubWide takes an integer of 128 bits from a sum of integers.
func (st *State) SubWide(hi, lo uint64) {
	var borrow uint64
	st.A, borrow = bits.Sub64(st.A, lo, 0)
	st.B, _ = bits.Sub64(st.B, hi, borrow)
}

// WideFloat returns the value of a sum of integers.
func (st *State) WideFloat() float64 {
	if int64(st.B) >= 0 {
		return math.FMA(float64(st.B), 1<<64, float64(st.A))
	}
	var minus State
	minus.SubWide(st.B, st.A)
	return -minus.WideFloat()
}

// Wide returns the 128 bits of an integer.
func Wide[T int64 | uint64](v T) (hi, lo uint64) {
	if v < 0 {
		hi = math.MaxUint64
	}
	return hi, uint64(v)
}

// addInts adds integers to a sum of integers. narrow says that sums of them fit.
func addInts[T int64 | uint64](st *State, x []T, narrow bool) {
	if narrow || len(x) >= shortSum && fitsAll(x) {
		st.AddWide(Wide(vector.SumInts(asInts(x))))
		return
	}
	for _, v := range x {
		st.AddWide(Wide(v))
	}
}

// shortSum is from how many integers on it pays to look whether their sum fits.
const shortSum = 16

// fitsAll reports whether integers are so small that every sum of some of them is an
// int64. It takes some for too large that are not.
func fitsAll[T int64 | uint64](x []T) bool {
	end := uint64(1) << (63 - bits.Len(uint(len(x)))) // every value lies below it
	least := uint64(0)
	if signed[T]() {
		end, least = end/2, end/2 // or not further below 0
	}
	return vector.OrInts(asInts(x), int64(least)) < end+least
}

// signed reports whether T has negative values.
func signed[T int64 | uint64]() bool {
	var zero T
	return zero-1 < 0
}

// fits is fitsAll for the values of a chunk.
func fits(t model.FieldType, s *scan.Stats) bool {
	far := max(s.Min, s.Max)
	if t == model.Integer {
		far = max(distance(int64(s.Min)), distance(int64(s.Max)))
	}
	high, low := bits.Mul64(uint64(s.Count), far)
	return high == 0 && low <= math.MaxInt64
}

// distance returns that of v from 0.
func distance(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// wideSum returns the sum of a chunk's integers. Its statistics have 64 bits of it, which
// are enough if the values do not differ too much.
func wideSum(t model.FieldType, s *scan.Stats) (hi, lo uint64, ok bool) {
	n := uint64(s.Count)
	if over, _ := bits.Mul64(n, s.Max-s.Min); over != 0 {
		return 0, 0, false
	}
	hi, lo = bits.Mul64(n, s.Min)
	if t == model.Integer && int64(s.Min) < 0 {
		hi -= n
	}
	lo, carry := bits.Add64(lo, s.Sum-n*s.Min, 0)
	return hi + carry, lo, true
}

// sumSquares adds up the squares, exactly except for the low order of the error terms.
func sumSquares(x []float64) (hi, lo float64) {
	for _, v := range x {
		p := v * v
		e := math.FMA(v, v, -p)
		var e2 float64
		hi, e2 = vector.TwoSum(hi, p)
		lo += e + e2
	}
	return hi, lo
}

// validCount counts the values of rows [lo, hi).
func validCount(v *column.Vector, lo, hi int) int {
	if v.Type == model.Unknown {
		return 0
	}
	if v.Valid == nil {
		return hi - lo
	}
	return rangeCount(v.Valid, lo, hi)
}

func rangeCount(b column.Bitmap, lo, hi int) int {
	if lo >= hi {
		return 0
	}
	first, last := lo>>6, (hi-1)>>6
	head := ^uint64(0) << (uint(lo) & 63)
	tail := ^uint64(0) >> (63 - uint(hi-1)&63)
	if first == last {
		return bits.OnesCount64(b[first] & head & tail)
	}
	n := bits.OnesCount64(b[first]&head) + bits.OnesCount64(b[last]&tail)
	for _, w := range b[first+1 : last] {
		n += bits.OnesCount64(w)
	}
	return n
}

// compact returns the non-null values among rows [lo, hi).
func compact[T any](x []T, valid column.Bitmap, lo, hi int, buf []T) []T {
	if valid == nil {
		return x[lo:hi]
	}
	buf = buf[:0]
	for i := lo; i < hi; i++ {
		if valid.Get(i) {
			buf = append(buf, x[i])
		}
	}
	return buf
}

// extreme returns the first row of [lo, hi) with the smallest (or largest)
// value, or -1.
func extreme[T cmp.Ordered](x []T, valid column.Bitmap, lo, hi int, largest bool) int {
	best := -1
	if valid == nil && lo < hi {
		best = lo
		m := x[lo]
		if largest {
			for i, v := range x[lo:hi] {
				if v > m {
					m, best = v, lo+i
				}
			}
		} else {
			for i, v := range x[lo:hi] {
				if v < m {
					m, best = v, lo+i
				}
			}
		}
		return best
	}
	for i := lo; i < hi; i++ {
		if !valid.Get(i) {
			continue
		}
		if best < 0 || (largest && x[i] > x[best]) || (!largest && x[i] < x[best]) {
			best = i
		}
	}
	return best
}

func extremeRow(v *column.Vector, lo, hi int, largest bool) int {
	switch v.Type {
	case model.Float:
		return extreme(v.Floats, v.Valid, lo, hi, largest)
	case model.Integer:
		return extreme(v.Ints, v.Valid, lo, hi, largest)
	case model.Unsigned:
		return extreme(v.Uints, v.Valid, lo, hi, largest)
	case model.Boolean:
		best := -1
		for i := lo; i < hi; i++ {
			if v.IsValid(i) && (best < 0 || v.Bools[i] == largest && v.Bools[best] != largest) {
				best = i
			}
		}
		return best
	}
	return -1
}
