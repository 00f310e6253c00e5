package partial

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// TestSumsDoNotDependOnCuts adds up ill-conditioned values in random cuts and
// orders: the sum is that of exact arithmetic, rounded once.
func TestSumsDoNotDependOnCuts(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 5))
	for range 200 {
		x := make([]float64, 2+rnd.IntN(300))
		exact := new(big.Float).SetPrec(2000)
		for i := range x {
			x[i] = math.Ldexp(rnd.Float64()-0.5, rnd.IntN(40))
			exact.Add(exact, new(big.Float).SetFloat64(x[i]))
		}
		want, _ := exact.Float64()
		slot := Slot{Kind: Sum, Type: model.Float}
		for range 4 {
			w := &Worker{}
			parts := make([]State, 1+rnd.IntN(4))
			v := column.Vector{Type: model.Float, Floats: x}
			for lo := 0; lo < len(x); {
				hi := min(len(x), lo+1+rnd.IntN(50))
				w.foldSum(&parts[rnd.IntN(len(parts))], &slot, &v, lo, hi)
				lo = hi
			}
			table := NewTable(1, true, 0, 0)
			total := &State{}
			for i := range parts {
				table.MergeState(total, &parts[i], table, &slot)
			}
			if total.N != int64(len(x)) {
				t.Fatalf("seed %d: %d values counted of %d", seed, total.N, len(x))
			}
			if got := total.Float(); math.Abs(got-want) > math.Abs(want)*1e-15 {
				t.Fatalf("seed %d: sum %v, want %v", seed, got, want)
			}
		}
	}
	// Infinities stay what they are.
	st := &State{}
	st.AddFloat(math.Inf(1), 0)
	st.AddFloat(1, 0)
	if !math.IsInf(st.Float(), 1) {
		t.Errorf("inf + 1 = %v", st.Float())
	}
}

func TestAggTablePages(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 6))
	for range 50 {
		first := rnd.Int64N(1000) - 500
		last := first + rnd.Int64N(1<<(1+rnd.IntN(40)))
		table := NewTable(2, false, first, last)
		want := map[pageKey]int64{}
		for range 300 {
			g, win := int32(rnd.IntN(5)), first+rnd.Int64N(last-first+1)
			table.At(g, win)[1].N++
			want[pageKey{g, win}]++
		}
		got := map[pageKey]int64{}
		for g := range int32(5) {
			before := int64(math.MinInt64)
			table.Group(g, func(win int64, st []State) {
				if win <= before {
					t.Fatalf("seed %d: window %d after %d", seed, win, before)
				}
				before = win
				if st[1].N > 0 {
					got[pageKey{g, win}] = st[1].N
				}
			})
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d windows, want %d", seed, len(got), len(want))
		}
		for k, n := range want {
			if got[k] != n {
				t.Fatalf("seed %d: %v holds %d, want %d", seed, k, got[k], n)
			}
		}
	}
}

// TestPickKeepsTheBest compares picks, of parts that are merged, with sorted rows.
func TestPickKeepsTheBest(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 7))
	for range 300 {
		sl := &Slot{Kind: Top, N: 1 + rnd.IntN(100), Unique: rnd.IntN(2) == 0, Tags: 1}
		rows := make([]PickRow, rnd.IntN(400))
		for i := range rows {
			rows[i] = PickRow{rank: rnd.Uint64N(50), T: rnd.Int64N(5), More: &pickMore{
				key: fmt.Sprintf("m,h=%d", i), Aux: []expr.Scalar{{Type: model.String, Text: fmt.Sprint(rnd.IntN(150))}},
			}}
		}
		var parts [3]pick
		for _, r := range rows {
			p := &parts[rnd.IntN(3)]
			if p.add(nil, sl, r); rnd.IntN(20) == 0 {
				p.Prune(nil, sl) // as encoding does
			}
		}
		for k := range 2 {
			parts[0].merge(nil, sl, &parts[1+k])
		}
		parts[0].Prune(nil, sl)

		slices.SortFunc(rows, func(a, b PickRow) int { return a.compare(&b) })
		var want []PickRow
		seen := map[string]bool{}
		for _, r := range rows {
			tag := r.More.Aux[0].Text
			if len(want) < sl.N && !(sl.Unique && seen[tag]) {
				want = append(want, r)
			}
			seen[tag] = true
		}
		if !slices.EqualFunc(parts[0].Rows, want, func(a, b PickRow) bool { return a.compare(&b) == 0 }) {
			t.Fatalf("seed %d: %d rows of %d, unique %v: got %v, want %v", seed, sl.N, len(rows), sl.Unique, parts[0].Rows, want)
		}
	}
}

// TestMode compares the mode of a tally with a walk over sorted values.
func TestMode(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 8))
	for range 500 {
		type value struct {
			word uint64
			at   int64
		}
		values := make([]value, 1+rnd.IntN(80))
		all := tally{typ: model.Unsigned}
		for i := range values {
			values[i] = value{rnd.Uint64N(1 + rnd.Uint64N(60)), rnd.Int64N(20)}
			all.add(values[i].word, "", 1, values[i].at, values[i].at, nil)
		}
		slices.SortFunc(values, func(a, b value) int { return cmp.Or(cmp.Compare(a.word, b.word), cmp.Compare(a.at, b.at)) })
		var best uint64
		most, last := 0, int64(0)
		for lo := 0; lo < len(values); {
			hi := lo
			for hi < len(values) && values[hi].word == values[lo].word {
				hi++
			}
			if n := hi - lo; n > most || n == most && n > 1 && values[lo].at <= last {
				best, most, last = values[lo].word, n, values[hi-1].at
			}
			lo = hi
		}
		if got := all.Entries[all.Mode(nil)].word; got != best {
			t.Fatalf("seed %d: mode of %v is %d, want %d", seed, values, got, best)
		}
	}
}

// TestSampleIsFair draws two rows of twenty by many seeds: each row is drawn about
// as often as any other, and so is each pair.
func TestSampleIsFair(t *testing.T) {
	const draws = 19_000
	var rows [20]int
	var pairs [20][20]int
	for seed := range uint64(draws) {
		sl := &Slot{Kind: Sample, N: 2, Seed: mix(seed + 1)}
		p := &pick{}
		for i := range rows {
			at := int64(1_500_000_000e9) + int64(i%4)*10e9 // four rows of five series
			p.add(nil, sl, PickRow{rank: sl.rank(0, seriesHash(fmt.Sprintf("m,h=%d", i/4)), at), T: at, Word: uint64(i)})
		}
		a, b := p.Rows[0].Word, p.Rows[1].Word
		rows[a]++
		rows[b]++
		pairs[min(a, b)][max(a, b)]++
	}
	for i := range rows {
		if n, want := rows[i], draws/10; n < want*9/10 || n > want*11/10 { // about 4.6 deviations
			t.Errorf("row %d was drawn %d times, not about %d", i, n, want)
		}
		for j := i + 1; j < len(rows); j++ {
			if n, want := pairs[i][j], draws/190; n < want/2 || n > want*3/2 { // 5 deviations
				t.Errorf("rows %d and %d were drawn %d times, not about %d", i, j, n, want)
			}
		}
	}
}

// TestSumsOfIntegersHaveAllBits adds up integers of any size, in dense windows and with
// nulls, by values and by statistics: the sum is that of exact arithmetic.
func TestSumsOfIntegersHaveAllBits(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 7))
	value := func(st *State) *big.Int {
		hi := big.NewInt(int64(st.B))
		return hi.Add(hi.Lsh(hi, 64), new(big.Int).SetUint64(st.A))
	}
	known := 0
	for range 2000 {
		n := 1 + rnd.IntN(100)
		typ := []model.FieldType{model.Integer, model.Unsigned}[rnd.IntN(2)]
		v := column.Vector{Type: typ}
		valid := column.NewBitmap(n)
		base, spread := rnd.Uint64(), rnd.IntN(65)
		if rnd.IntN(3) == 0 {
			base = []uint64{0, math.MaxInt64, 1 << 63, math.MaxUint64}[rnd.IntN(4)]
		}
		s := scan.Stats{Count: n}
		sum, some := new(big.Int), new(big.Int)
		for i := range n {
			word := base - rnd.Uint64()>>spread
			exact := new(big.Int).SetUint64(word)
			if typ == model.Integer {
				v.Ints = append(v.Ints, int64(word))
				exact.SetInt64(int64(word))
			} else {
				v.Uints = append(v.Uints, word)
			}
			if i == 0 || typ.Less(word, s.Min) {
				s.Min = word
			}
			if i == 0 || typ.Less(s.Max, word) {
				s.Max = word
			}
			s.Sum += word
			sum.Add(sum, exact)
			if rnd.IntN(4) > 0 {
				valid.Set(i)
				some.Add(some, exact)
			}
		}
		check := func(how string, st *State, want *big.Int) {
			t.Helper()
			if value(st).Cmp(want) != 0 {
				t.Fatalf("seed %d: %s of %d %s: %s, want %s", seed, how, n, typ, value(st), want)
			}
			mean, _ := new(big.Float).SetInt(want).Float64()
			if got := st.WideFloat(); math.Abs(got-mean) > math.Abs(mean)*1e-15 {
				t.Fatalf("seed %d: %s: %v, want %v", seed, how, got, mean)
			}
		}
		p := &Plan{Windows: &window.Windows{Every: 1 + rnd.Int64N(40)}, Slots: []Slot{{Kind: Sum, Type: typ}}}
		first, last := p.Prepare(model.TimeRange{Min: 0, Max: int64(n - 1)})
		for _, narrow := range []bool{false, fits(typ, &s)} {
			for _, present := range []column.Bitmap{nil, valid} {
				w := NewWorker(nil, p, model.AllTime, NewTable(1, false, first, last))
				w.narrow, v.Valid = narrow, present
				w.cutRegular(0, 0, 1, n)
				w.foldCuts(0, &v, nil)
				total := &State{}
				w.t.Group(0, func(_ int64, st []State) { w.t.MergeState(total, &st[0], w.t, &p.Slots[0]) })
				if present == nil {
					check("dense", total, sum)
				} else {
					check("nulls", total, some)
				}
			}
		}
		if hi, lo, ok := wideSum(typ, &s); ok {
			known++
			check("statistics", &State{A: lo, B: hi}, sum)
		}
	}
	if known < 1000 {
		t.Errorf("seed %d: %d sums known by statistics", seed, known)
	}
}

// BenchmarkSumInts times the sums of 1,000 integers by the values of a window.
func BenchmarkSumInts(b *testing.B) {
	v := column.Vector{Type: model.Integer, Ints: make([]int64, 1000)}
	holes := v
	holes.Valid = column.NewBitmap(len(v.Ints))
	times := make([]int64, len(v.Ints))
	for i := range times {
		times[i] = int64(i)
		v.Ints[i] = int64(i*7919%1000) - 300
		if i%4 != 0 {
			holes.Valid.Set(i)
		}
	}
	for _, every := range []int64{6, 60, 1000} {
		p := &Plan{Windows: &window.Windows{Every: every}, Slots: []Slot{{Kind: Sum, Type: model.Integer}}}
		first, last := p.Prepare(model.TimeRange{Min: 0, Max: times[len(times)-1]})
		w := NewWorker(nil, p, model.AllTime, NewTable(1, false, first, last))
		for name, v := range map[string]*column.Vector{"known": &v, "dense": &v, "holes": &holes} {
			w.narrow = name == "known" // by statistics
			w.cutRegular(0, 0, 1, len(times))
			b.Run(fmt.Sprint(name, "/", every), func(b *testing.B) {
				for b.Loop() {
					w.foldCuts(0, v, nil)
				}
			})
		}
	}
}
