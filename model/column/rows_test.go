package column

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

var allTypes = []model.FieldType{model.Float, model.Integer, model.Unsigned, model.String, model.Boolean}

// cell is row i of v, nil where there is no value.
func cell(v *Vector, i int) any {
	if !v.IsValid(i) {
		return nil
	}
	switch v.Type {
	case model.Float:
		return v.Floats[i]
	case model.Integer:
		return v.Ints[i]
	case model.Unsigned:
		return v.Uints[i]
	case model.String:
		return v.Strings[i]
	}
	return v.Bools[i]
}

// naive is rows the slow way: time to cells.
type naive map[int64][]any

func toNaive(t *testing.T, r *Rows) naive {
	t.Helper()
	out := naive{}
	for i, at := range r.Times {
		if i > 0 && at <= r.Times[i-1] {
			t.Fatalf("time %d behind %d", at, r.Times[i-1])
		}
		cells := make([]any, len(r.Cols))
		for c := range r.Cols {
			cells[c] = cell(&r.Cols[c], i)
		}
		out[at] = cells
	}
	for c := range r.Cols {
		v := &r.Cols[c]
		if v.Len() != len(r.Times) || v.Valid != nil && len(v.Valid) < (v.Len()+63)/64 {
			t.Fatalf("column %d has %d rows and %d words of validity, want %d rows", c, v.Len(), len(v.Valid), len(r.Times))
		}
	}
	return out
}

func same(a, b naive) bool { return reflect.DeepEqual(a, b) }

// randomVector appends n random rows to v by all ways of appending one.
func randomVector(r *rand.Rand, v *Vector, n int, nulls float64) {
	for range n {
		if r.Float64() < nulls {
			v.AppendNull()
			continue
		}
		text := []byte(fmt.Sprint(r.IntN(1000)))
		w := r.Uint64N(2)
		switch v.Type {
		case model.String:
			w = StringWord(0, len(text))
		case model.Integer, model.Unsigned:
			w = r.Uint64()
		case model.Float:
			w = uint64(0x3ff)<<52 | r.Uint64()>>12
		}
		v.AppendWord(w, text)
	}
}

func randomRows(r *rand.Rand, types []model.FieldType, n int) *Rows {
	rows := &Rows{}
	rows.Reset(types)
	at := int64(r.IntN(20))
	for range n {
		rows.Times = append(rows.Times, at)
		at += 1 + int64(r.IntN(1+r.IntN(40)))
	}
	for c := range rows.Cols {
		randomVector(r, &rows.Cols[c], n, []float64{0, 0, 0.02, 0.5, 1}[r.IntN(5)])
	}
	return rows
}

// rounds is n, fewer under -short.
func rounds(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

func newRand(t *testing.T) *rand.Rand {
	seed := testseed.Of(t)
	return rand.New(rand.NewPCG(seed, 2))
}

func TestMergeMatchesNaive(t *testing.T) {
	r := newRand(t)
	ties := 0
	for range rounds(500) {
		types := allTypes[:1+r.IntN(len(allTypes))]
		want := naive{}
		dst := randomRows(r, types, r.IntN(3)*r.IntN(70))
		start := int64(0)
		for i := range dst.Times { // dst's own rows stay in front
			dst.Times[i] -= 1 << 40
		}
		for at, cells := range toNaive(t, dst) {
			want[at] = cells
		}
		var srcs []*Rows
		for range r.IntN(5) {
			s := randomRows(r, types, r.IntN(200))
			if r.IntN(3) == 0 { // behind the others: whole runs are copied
				for i := range s.Times {
					s.Times[i] += start
				}
			}
			start += int64(r.IntN(4000))
			srcs = append(srcs, s)
			for at, cells := range toNaive(t, s) {
				old := want[at]
				if old == nil {
					want[at] = cells
					continue
				}
				ties++
				old = slices.Clone(old)
				for c := range cells {
					if cells[c] != nil {
						old[c] = cells[c]
					}
				}
				want[at] = old
			}
		}
		before := make([]naive, len(srcs))
		for i, s := range srcs {
			before[i] = toNaive(t, s)
		}
		Merge(dst, srcs)
		if got := toNaive(t, dst); !same(got, want) {
			t.Fatalf("merged rows\n%v\nwant\n%v", got, want)
		}
		for i, s := range srcs {
			if !same(toNaive(t, s), before[i]) {
				t.Fatal("a source was changed")
			}
		}
	}
	if ties < rounds(300) {
		t.Errorf("only %d rows of equal time", ties)
	}
}

func TestKeepMatchesNaive(t *testing.T) {
	r := newRand(t)
	emptied := 0
	for range rounds(500) {
		rows := randomRows(r, allTypes[:1+r.IntN(5)], r.IntN(300))
		dropEmpty, share := r.IntN(2) == 0, r.Float64()
		if r.IntN(8) == 0 {
			share = 1
		}
		mask := make([]bool, rows.Len())
		want := naive{}
		all := toNaive(t, rows)
		for i, at := range rows.Times {
			mask[i] = r.Float64() < share
			empty := !slices.ContainsFunc(all[at], func(c any) bool { return c != nil })
			if mask[i] && dropEmpty && empty {
				emptied++
			}
			if mask[i] && (!dropEmpty || !empty) {
				want[at] = all[at]
			}
		}
		rows.Keep(func(i int) bool { return mask[i] }, dropEmpty)
		if got := toNaive(t, rows); !same(got, want) {
			t.Fatalf("kept\n%v\nwant\n%v", got, want)
		}
		// What was cut must not shine through in rows that come later.
		for c := range rows.Cols {
			v := &rows.Cols[c]
			v.AppendNull()
			v.AppendNulls(70)
			for i := rows.Len(); i < v.Len(); i++ {
				if v.IsValid(i) {
					t.Fatalf("row %d, appended as null, has a value", i)
				}
			}
		}
	}
	if emptied == 0 {
		t.Error("no kept row was empty")
	}
}

func TestAppendVectorMatchesNaive(t *testing.T) {
	r := newRand(t)
	for range rounds(3000) {
		typ := allTypes[r.IntN(len(allTypes))]
		v, w := Vector{Type: typ}, Vector{Type: typ}
		randomVector(r, &v, r.IntN(150), []float64{0, 0.3, 1}[r.IntN(3)])
		randomVector(r, &w, r.IntN(300), []float64{0, 0.3, 1}[r.IntN(3)])
		lo := r.IntN(w.Len() + 1)
		hi := lo + r.IntN(w.Len()-lo+1)
		var want []any
		for i := range v.Len() {
			want = append(want, cell(&v, i))
		}
		for i := lo; i < hi; i++ {
			want = append(want, cell(&w, i))
		}
		one := Vector{Type: typ}
		one.AppendVector(&v, 0, v.Len())
		for i := lo; i < hi; i++ {
			one.AppendFrom(&w, i)
		}
		cut := w.Slice(lo, hi)
		sliced := Vector{Type: typ}
		sliced.AppendVector(&v, 0, v.Len())
		sliced.AppendVector(&cut, 0, hi-lo)
		v.AppendVector(&w, lo, hi)
		for name, got := range map[string]*Vector{"vector": &v, "row by row": &one, "slice": &sliced} {
			if got.Len() != len(want) {
				t.Fatalf("%s: %d rows, want %d", name, got.Len(), len(want))
			}
			valid := 0
			for i := range want {
				if cell(got, i) != want[i] {
					t.Fatalf("%s: row %d of %d+[%d,%d) is %v, want %v", name, i, len(want)-hi+lo, lo, hi, cell(got, i), want[i])
				}
				if want[i] != nil {
					valid++
				}
			}
			if got.Valid != nil && got.Valid.Count(len(want)) != valid {
				t.Fatalf("%s: count %d, want %d", name, got.Valid.Count(len(want)), valid)
			}
		}
	}
}

func TestNulls(t *testing.T) {
	for _, typ := range allTypes {
		v := Vector{Type: typ}
		randomVector(newRand(t), &v, 100, 0)
		v.Nulls(typ, 70)
		if v.Len() != 70 || v.Valid.Count(70) != 0 {
			t.Errorf("%v: %d rows, %d valid", typ, v.Len(), v.Valid.Count(70))
		}
	}
}

func TestBounds(t *testing.T) {
	r := newRand(t)
	for range 5000 {
		rows := randomRows(r, nil, r.IntN(20))
		tr := model.TimeRange{Min: int64(r.IntN(300)) - 20, Max: int64(r.IntN(300)) - 20}
		lo, hi := rows.Bounds(tr)
		if lo > hi || lo < 0 || hi > rows.Len() {
			t.Fatalf("bounds %d, %d of %d rows", lo, hi, rows.Len())
		}
		for i, at := range rows.Times {
			if tr.Contains(at) != (i >= lo && i < hi) {
				t.Fatalf("%v of %v: [%d, %d)", tr, rows.Times, lo, hi)
			}
		}
		if cut := rows.Slice(lo, hi, nil); cut.Len() != hi-lo {
			t.Fatalf("slice of %d rows, want %d", cut.Len(), hi-lo)
		}
	}
}

// TestTruncate: rows that come after others were dropped have their own nulls.
func TestTruncate(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 130} {
		v := Vector{Type: model.Integer}
		v.AppendNull()
		for i := range 200 {
			v.AppendWord(uint64(i), nil)
		}
		v.Truncate(n)
		if v.Len() != n {
			t.Errorf("%d rows after Truncate(%d)", v.Len(), n)
		}
		for range 150 {
			v.AppendNull()
		}
		for i := n; i < v.Len(); i++ {
			if v.IsValid(i) {
				t.Errorf("Truncate(%d): row %d has a value", n, i)
				break
			}
		}
	}
}
