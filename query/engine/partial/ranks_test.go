package partial

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
)

// rankedColumn returns n values of a random kind: few different ones or many, near to one
// another or far, at the edges of their type, some null.
func rankedColumn(rnd *rand.Rand, typ model.FieldType, n int) column.Vector {
	v := column.Vector{Type: typ}
	edges := map[model.FieldType][]uint64{
		model.Float:    {0, 1 << 63, math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)), 1, math.Float64bits(-math.MaxFloat64), math.Float64bits(1.5)},
		model.Integer:  {0, 1, math.MaxUint64, math.MaxInt64, 1 << 63},
		model.Unsigned: {0, 1, math.MaxUint64, 1 << 63},
	}[typ]
	spread, edgy := rnd.IntN(63), rnd.IntN(4) == 0
	for range n {
		word := rnd.Uint64() >> spread
		if typ == model.Float {
			word = math.Float64bits(float64(int64(word)) / 16)
		}
		if edgy {
			word = edges[rnd.IntN(len(edges))]
		}
		v.AppendWord(word, nil)
	}
	if rnd.IntN(3) == 0 {
		v.Valid = column.NewBitmap(n)
		for i := range n {
			if rnd.IntN(4) > 0 {
				v.Valid.Set(i)
			}
		}
	}
	return v
}

// TestRanks compares the values of ranks with sorted values: of parts of a column that are
// folded into states of several tables, which are merged. -0 comes before 0. The time of a
// value among equal ones follows the order of time.
func TestRanks(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 9))
	type value struct {
		word uint64
		at   int64
	}
	for range 1000 {
		typ := []model.FieldType{model.Float, model.Integer, model.Unsigned}[rnd.IntN(3)]
		n := 1 + rnd.IntN(1<<rnd.IntN(15))
		v := rankedColumn(rnd, typ, n)
		sl := &Slot{Kind: Ranks, Type: typ, Timed: rnd.IntN(2) == 0}
		times := make([]int64, n)
		for i := range times {
			times[i] = rnd.Int64N(50) - 25
		}
		// A state under test and another one, which takes turns with it.
		var tables [3]*Table
		var states [3][2]State
		for i := range tables {
			tables[i] = NewTable(1, true, 0, 0)
			tables[i].Desc = rnd.IntN(2) == 0
		}
		var want []value
		for lo := 0; lo < n; {
			hi := min(n, lo+1+rnd.IntN(n))
			i := rnd.IntN(3)
			w := &Worker{t: tables[i], Times: times}
			w.keep(&states[i][0], sl, &v, lo, hi)
			w.keep(&states[i][1], sl, &v, 0, min(3, n))
			for k := lo; k < hi; k++ {
				if v.IsValid(k) {
					want = append(want, value{v.Word(k), times[k]})
				}
			}
			lo = hi
		}
		table, st := tables[0], &states[0][0]
		for i := 1; i < 3; i++ {
			if states[i][0].N > 0 {
				table.MergeState(st, &states[i][0], tables[i], sl)
			}
		}
		slices.SortFunc(want, func(a, b value) int {
			byTime := cmp.Compare(a.at, b.at)
			if table.Desc {
				byTime = -byTime
			}
			c := 0
			switch x, y := FloatOf(a.word), FloatOf(b.word); {
			case typ == model.Integer:
				c = cmp.Compare(int64(a.word), int64(b.word))
			case typ == model.Unsigned:
				c = cmp.Compare(a.word, b.word)
			case x == y && a.word != b.word:
				c = 1
				if math.Signbit(x) {
					c = -1
				}
			default:
				c = cmp.Compare(x, y)
			}
			return cmp.Or(c, byTime)
		})
		if st.N != int64(len(want)) {
			t.Fatalf("seed %d: %d values, want %d", seed, st.N, len(want))
		}
		if len(want) == 0 {
			continue
		}
		for range 5 {
			rank := rnd.IntN(len(want))
			expected := want[rank]
			if !sl.Timed {
				expected.at = 0
			}
			if word, at := table.Ranked(sl, st, rank); (value{word, at}) != expected {
				t.Fatalf("seed %d: rank %d of %d %s is %x at %d, want %x", seed, rank, len(want), typ, word, at, expected)
			}
		}
		low, high := table.Middle(sl, st)
		if a, b := want[(len(want)-1)/2].word, want[len(want)/2].word; low != a || high != b {
			t.Fatalf("seed %d: the middle of %d %s is %x and %x, want %x and %x", seed, len(want), typ, low, high, a, b)
		}
	}
}

// TestRankedRow compares the rows of ranks with rows that are sorted and keep their order.
func TestRankedRow(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 4))
	r := &Ranker{}
	for range 500 {
		n := 1 + rnd.IntN(100)
		v := column.Vector{Type: model.Float}
		values := 1 + rnd.IntN(40)
		for range n {
			v.Floats = append(v.Floats, float64(rnd.IntN(values)))
		}
		lo := rnd.IntN(n)
		hi := lo + 1 + rnd.IntN(n-lo)
		order := make([]int, hi-lo)
		for i := range order {
			order[i] = lo + i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v.Floats[a], v.Floats[b]) })
		for rank, want := range order {
			if got := r.Row(nil, &v, lo, hi, rank); got != want {
				t.Fatalf("seed %d: row of rank %d of %v is %d, want %d", seed, rank, v.Floats[lo:hi], got, want)
			}
		}
	}
}

// BenchmarkRanks times a percentile of a window by the number of its values.
func BenchmarkRanks(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 60, 1000, 36_000} {
		v := column.Vector{Type: model.Float}
		for range n {
			v.Floats = append(v.Floats, math.Round(rnd.Float64()*1e4)/100)
		}
		w := &Worker{t: NewTable(1, true, 0, 0)}
		st, sl := &State{}, &Slot{Kind: Ranks, Type: model.Float}
		w.keep(st, sl, &v, 0, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				w.t.Ranked(sl, st, n*95/100)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/value")
		})
	}
}
