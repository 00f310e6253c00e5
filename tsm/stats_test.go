package tsm

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm/stats"
)

// bruteStats computes the statistics of a column the long way. Sum and
// SumError of floats are left to diffStats.
func bruteStats(v *column.Vector, rows int) scan.Stats {
	var s scan.Stats
	less := func(a, b uint64) bool {
		switch v.Type {
		case model.Float:
			x, y := math.Float64frombits(a), math.Float64frombits(b)
			return x < y || math.IsNaN(y) && !math.IsNaN(x)
		case model.Integer:
			return int64(a) < int64(b)
		}
		return a < b
	}
	greater := func(a, b uint64) bool {
		if v.Type == model.Float {
			x, y := math.Float64frombits(a), math.Float64frombits(b)
			return x > y || math.IsNaN(y) && !math.IsNaN(x)
		}
		return less(b, a)
	}
	for i := range rows {
		if !v.IsValid(i) {
			continue
		}
		var w uint64
		switch v.Type {
		case model.Float:
			w = math.Float64bits(v.Floats[i])
		case model.Integer:
			w = uint64(v.Ints[i])
		case model.Unsigned:
			w = v.Uints[i]
		case model.Boolean:
			w = stats.BoolWord(v.Bools[i])
		}
		if s.Count == 0 {
			s.Min, s.Max, s.First, s.FirstRow = w, w, w, i
		}
		s.Count++
		s.Last, s.LastRow = w, i
		if v.Type == model.String {
			continue
		}
		if less(w, s.Min) {
			s.Min = w
		}
		if greater(w, s.Max) {
			s.Max = w
		}
		s.Sum += w
	}
	return s
}

// diffStats compares got with brute force; a float's sum must be within
// 2^-100 of the exact one.
func diffStats(v *column.Vector, rows int, got scan.Stats) error {
	want := bruteStats(v, rows)
	if v.Type != model.Float || want.Count == 0 {
		if got != want {
			return fmt.Errorf("stats %+v, want %+v", got, want)
		}
		return nil
	}
	sum, lost := math.Float64frombits(got.Sum), got.SumError
	sameNaN := func(a, b uint64) bool {
		return a == b || math.IsNaN(math.Float64frombits(a)) && math.IsNaN(math.Float64frombits(b)) ||
			math.Float64frombits(a) == math.Float64frombits(b) // the sign of zero is free
	}
	if !sameNaN(got.Min, want.Min) || !sameNaN(got.Max, want.Max) || got.First != want.First || got.Last != want.Last {
		return fmt.Errorf("stats %+v, want %+v", got, want)
	}
	if got.Count != want.Count || got.FirstRow != want.FirstRow || got.LastRow != want.LastRow {
		return fmt.Errorf("stats %+v, want %+v", got, want)
	}
	exact, scale := new(big.Float).SetPrec(3000), new(big.Float).SetPrec(3000)
	plain, finite := 0.0, true
	for i := range rows {
		if !v.IsValid(i) {
			continue
		}
		x := v.Floats[i]
		plain += x
		if math.IsNaN(x) || math.IsInf(x, 0) {
			finite = false
			continue
		}
		exact.Add(exact, new(big.Float).SetFloat64(x))
		scale.Add(scale, new(big.Float).SetFloat64(math.Abs(x)))
	}
	if !finite {
		if !(sum == plain || math.IsNaN(sum) && math.IsNaN(plain)) || lost != 0 {
			return fmt.Errorf("sum %v + %v, want %v", sum, lost, plain)
		}
		return nil
	}
	if f, _ := exact.Float64(); math.IsInf(f, 0) || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil // overflow on the way is the sum's right
	}
	diff := new(big.Float).SetPrec(3000).SetFloat64(sum)
	diff.Add(diff, new(big.Float).SetFloat64(lost))
	diff.Sub(diff, exact)
	limit := scale.SetMantExp(scale, -95)
	if diff.Abs(diff).Cmp(limit) > 0 && diff.Cmp(big.NewFloat(1e-300)) > 0 {
		return fmt.Errorf("sum %v + %v is off by %v", sum, lost, diff)
	}
	return nil
}

func TestStatsRoundTrip(t *testing.T) {
	rng := newRand(t)
	sizes := 0
	for range 3000 {
		ty := model.FieldType(1 + rng.IntN(5))
		rows := StatsRows + rng.IntN(60)
		v := randomVector(rng, ty, rows)
		var st scan.Stats
		if n := validCount(&v, rows); n > 0 {
			dense := v
			if n < rows {
				dense = column.Vector{}
				gather(&dense, &v, rows)
			}
			st = stats.Of(&dense)
			st.LastRow = rows - 1
			if n < rows {
				st.FirstRow, st.LastRow = runLength(v.Valid, 0, rows, false), lastSet(v.Valid, rows)
			}
		}
		b := stats.Append(nil, ty, &st, rows)
		sizes += len(b)
		rec, off := stats.Record(b, 0)
		if off != len(b) {
			t.Fatalf("record of %d bytes ends at %d", len(b), off)
		}
		var got, cutGot scan.Stats
		if !stats.Decode(&got, rec, ty, rows) {
			t.Fatalf("%s: %x does not decode", ty, b)
		}
		sum := scan.Stats{Count: 7, Sum: 7, SumError: 7}
		if ok := stats.DecodeSum(&sum, rec, ty, rows); !ok || sum.Count != got.Count || sum.Sum != got.Sum ||
			math.Float64bits(sum.SumError) != math.Float64bits(got.SumError) ||
			(ty == model.Integer || ty == model.Unsigned) && (sum.Min != got.Min || sum.Max != got.Max) {
			t.Fatalf("%s: sum of %x is %+v, %v; want that of %+v", ty, b, sum, ok, got)
		}
		if got != st && !math.IsNaN(got.SumError) {
			t.Fatalf("%s: %+v, want %+v", ty, got, st)
		}
		if ty == model.Float {
			// A NaN is never missed; a false alarm needs infinities of both signs.
			nan, sum := false, math.Float64frombits(st.Sum)
			for i, x := range v.Floats {
				nan = nan || v.IsValid(i) && math.IsNaN(x)
			}
			if may := stats.MayHaveNaN(rec, rows); nan && !may || may && !nan && !math.IsNaN(sum) {
				t.Fatalf("%x of %v may have NaN: %t", rec, v.Floats, may)
			}
			if math.IsNaN(sum) && st.Sum != math.Float64bits(math.NaN()) {
				t.Fatalf("the sum of %v has the bits %x", v.Floats, st.Sum)
			}
		}
		if err := diffStats(&v, rows, got); err != nil {
			t.Fatalf("%s: %v", ty, err)
		}
		for cut := range rec {
			if cut > 0 && stats.Decode(&cutGot, rec[:cut], ty, rows) {
				t.Fatalf("%s: cut record %x decodes to %+v", ty, rec[:cut], cutGot)
			}
			if cut > 0 && stats.DecodeSum(&cutGot, rec[:cut], ty, rows) {
				t.Fatalf("%s: cut record %x has the sum of %+v", ty, rec[:cut], cutGot)
			}
		}
	}
}

func validCount(v *column.Vector, rows int) int {
	if v.Valid == nil {
		return rows
	}
	return v.Valid.Count(rows)
}

// Decimal values take a few bytes, whatever the float sum's error.
func TestStatsSize(t *testing.T) {
	ints := column.Vector{Type: model.Integer}
	decimals := column.Vector{Type: model.Float}
	full := column.Vector{Type: model.Float}
	rng := newRand(t)
	x := 5000.0
	for range 1000 {
		x += math.Round(rng.NormFloat64() * 10)
		ints.Ints = append(ints.Ints, int64(x))
		decimals.Floats = append(decimals.Floats, x/100)
		full.Floats = append(full.Floats, rng.Float64())
	}
	for _, tt := range []struct {
		v     *column.Vector
		limit int
	}{{&ints, 14}, {&decimals, 20}, {&full, 52}} {
		st := stats.Of(tt.v)
		st.LastRow = 999
		if n := len(stats.Append(nil, tt.v.Type, &st, 1000)); n > tt.limit {
			t.Errorf("%s: record of %d bytes, want at most %d", tt.v.Type, n, tt.limit)
		}
	}
}

func TestLoneFloat(t *testing.T) {
	rng := newRand(t)
	values := append([]float64(nil), hostileFloats...)
	for range 20000 {
		e := rng.IntN(10)
		values = append(values, float64(rng.Int64N(1<<uint(1+rng.IntN(60))))/math.Pow10(e)*float64(1-2*rng.IntN(2)),
			math.Float64frombits(rng.Uint64()))
	}
	for _, x := range values {
		b := appendFloat(nil, x)
		got, ok := decodeFloat(b)
		if !ok || math.Float64bits(got) != math.Float64bits(x) || len(b) > 8 {
			t.Fatalf("%v: %x gives %v, %v", x, b, got, ok)
		}
	}
	for x, want := range map[float64]int{0: 2, 1.5: 2, 99.25: 4, -0.1: 2, 123456.789: 5, 1.0 / 3: 8} {
		if n := len(appendFloat(nil, x)); n != want {
			t.Errorf("%v takes %d bytes, want %d", x, n, want)
		}
	}
}

func TestPresence(t *testing.T) {
	rng := newRand(t)
	for range 2000 {
		rows := 2 + rng.IntN(1200)
		v := randomVector(rng, model.Boolean, rows)
		n := validCount(&v, rows)
		if n == 0 || n == rows {
			continue
		}
		b := appendPresence(nil, v.Valid, rows)
		if len(b) > 1+(rows+7)/8 {
			t.Fatalf("presence of %d rows takes %d bytes", rows, len(b))
		}
		got := column.NewBitmap(rows)
		count, off := decodePresence(got, append(b, 1, 2, 3), rows)
		if count != n || off != len(b) {
			t.Fatalf("count %d, want %d; end %d of %d", count, n, off, len(b))
		}
		for i := range rows {
			if got.Get(i) != v.Valid.Get(i) {
				t.Fatalf("row %d", i)
			}
		}
		for cut := range b {
			if _, off := decodePresence(got, b[:cut], rows); off >= 0 {
				t.Fatalf("cut presence decodes")
			}
		}
	}
}
