package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/parquet"
	"tsdbd/internal/testkit/parquettest"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
)

// bits makes values comparable: NaN equals NaN with the same bits.
func bits(values []any) []any {
	out := slices.Clone(values)
	for i, v := range out {
		if f, ok := v.(float64); ok {
			out[i] = fmt.Sprintf("%x", math.Float64bits(f))
		}
	}
	return out
}

// vector returns a column of values, which are nil or of one type.
func vector(t model.FieldType, values []any) *column.Vector {
	v := new(column.Vector)
	v.Reset(t)
	for _, x := range values {
		if x == nil {
			v.AppendNull()
			continue
		}
		one := column.Vector{Type: t}
		switch x := x.(type) {
		case float64:
			one.Floats = []float64{x}
		case int64:
			one.Ints = []int64{x}
		case uint64:
			one.Uints = []uint64{x}
		case bool:
			one.Bools = []bool{x}
		case string:
			one.Strings = []string{x}
		}
		v.AppendFrom(&one, 0)
	}
	return v
}

var types = []model.FieldType{model.Float, model.Integer, model.Unsigned, model.Boolean, model.String}

// random returns a value, often one at the edge of its type, or nil.
func random(r *rand.Rand, t model.FieldType, nulls float64, words int) any {
	if r.Float64() < nulls {
		return nil
	}
	edge := r.IntN(4) == 0
	switch t {
	case model.Float:
		if edge {
			return []float64{math.NaN(), math.Float64frombits(0x7ff0000000000002), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64}[r.IntN(7)]
		}
		return r.NormFloat64()
	case model.Integer:
		if edge {
			return []int64{math.MinInt64, math.MaxInt64, 0, -1}[r.IntN(4)]
		}
		return r.Int64N(1000)
	case model.Unsigned:
		if edge {
			return []uint64{math.MaxUint64, 1 << 63, 0}[r.IntN(3)]
		}
		return r.Uint64N(1000)
	case model.Boolean:
		return r.IntN(2) == 0
	}
	return strings.Repeat("é\n\"'", r.IntN(5)) + fmt.Sprint(r.IntN(words))
}

// TestRandomTables writes tables in pieces of random sizes and reads them back.
func TestRandomTables(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	groups, late := 0, 0
	for range 30 {
		total := []int{0, 1, r.IntN(100), r.IntN(60_000)}[r.IntN(4)]
		opt := parquet.Options{GroupRows: 1 + r.IntN(40_000)}
		charged := int64(0)
		opt.Charge = func(n int64) error { charged = n; return nil }
		var file bytes.Buffer
		w := parquet.NewWriter(&file, opt, parquet.Column{Name: "time", Type: model.Integer, Time: true, Required: true})
		want := map[string][]any{}
		var names []string
		for rows := 0; ; {
			if len(names) < 8 && r.IntN(3) == 0 || len(names) == 0 {
				names = append(names, fmt.Sprintf("column %d", len(names)))
				w.AddColumn(parquet.Column{Name: names[len(names)-1], Type: types[len(names)%len(types)]})
				want[names[len(names)-1]] = make([]any, rows)
				if rows > 0 {
					late++
				}
			}
			if rows == total {
				break
			}
			n := min(total-rows, 1+r.IntN(5000))
			times := make([]int64, n)
			for i := range times {
				times[i] = r.Int64() >> r.IntN(64)
				want["time"] = append(want["time"], times[i])
			}
			w.Times(0, times)
			nulls, words := []float64{0, 0, 0.01, 0.5, 1}[r.IntN(5)], []int{1, 3, 100_000}[r.IntN(3)]
			for i, name := range names {
				kind := w.Type(i + 1)
				values := make([]any, n)
				switch {
				case kind == model.String && r.IntN(3) == 0:
					text := fmt.Sprint(r.IntN(10))
					w.Text(i+1, text, n)
					for i := range values {
						values[i] = text
					}
				case r.IntN(10) == 0:
					w.Nulls(i+1, n)
				default:
					for i := range values {
						values[i] = random(r, kind, nulls, words)
					}
					w.Vector(i+1, vector(kind, values), n)
				}
				want[name] = append(want[name], values...)
			}
			if err := w.Rows(n); err != nil {
				t.Fatal(err)
			}
			rows += n
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if total > 0 && charged == 0 {
			t.Error("no memory was charged")
		}
		columns, err := parquettest.Read(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(columns) != len(names)+1 {
			t.Fatalf("%d columns, want %d", len(columns), len(names)+1)
		}
		groups = max(groups, len(columns[0].Groups))
		for _, c := range columns {
			if len(c.Values) != total || total > 0 && !reflect.DeepEqual(bits(c.Values), bits(want[c.Name])) {
				t.Fatalf("column %s of %d rows differs", c.Name, total)
			}
			checkBounds(t, &c)
		}
	}
	if groups < 3 || late == 0 {
		t.Errorf("at most %d row groups, %d late columns", groups, late)
	}
}

// checkBounds compares statistics with the values.
func checkBounds(t *testing.T, c *parquettest.Column) {
	t.Helper()
	values := c.Values
	for _, g := range c.Groups {
		own := values[:g.Rows]
		values = values[g.Rows:]
		nulls := 0
		var least, greatest any
		for _, v := range own {
			if f, ok := v.(float64); v == nil || ok && math.IsNaN(f) {
				if v == nil {
					nulls++
				}
				continue
			}
			if least == nil || less(v, least) {
				least = v
			}
			if greatest == nil || less(greatest, v) {
				greatest = v
			}
		}
		if nulls != g.Nulls || (least == nil) != (g.Least == nil) || least != nil && (g.Least != least || g.Greatest != greatest) {
			t.Errorf("column %s has %d nulls from %v to %v, the file says %d, %v to %v", c.Name, nulls, least, greatest, g.Nulls, g.Least, g.Greatest)
		}
	}
}

func less(a, b any) bool {
	switch a := a.(type) {
	case float64:
		return a < b.(float64)
	case int64:
		return a < b.(int64)
	case uint64:
		return a < b.(uint64)
	case bool:
		return !a && b.(bool)
	}
	return a.(string) < b.(string)
}

// write writes a table of one column.
func write(t *testing.T, kind model.FieldType, opt parquet.Options, values ...any) parquettest.Column {
	t.Helper()
	var file bytes.Buffer
	w := parquet.NewWriter(&file, opt, parquet.Column{Name: "c", Type: kind})
	w.Vector(0, vector(kind, values), len(values))
	if err := errors.Join(w.Rows(len(values)), w.Close()); err != nil {
		t.Fatal(err)
	}
	columns, err := parquettest.Read(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(bits(columns[0].Values), bits(values)) {
		t.Fatalf("values %v, want %v", columns[0].Values, values)
	}
	return columns[0]
}

func TestTypes(t *testing.T) {
	for _, c := range []struct {
		kind   model.FieldType
		values []any
		want   string
	}{
		{model.Float, []any{1.5, nil}, "DOUBLE"},
		{model.Integer, []any{int64(1)}, "INT64"},
		{model.Unsigned, []any{uint64(1)}, "INT64 UNSIGNED"},
		{model.Boolean, []any{true}, "BOOLEAN"},
		{model.String, []any{"a\nb", ""}, "BYTE_ARRAY STRING"},
		{model.String, []any{"a\xff"}, "BYTE_ARRAY"},
		{model.Float, []any{nil, nil}, "DOUBLE"},
	} {
		if got := write(t, c.kind, parquet.Options{}, c.values...); got.Type != c.want || got.Required {
			t.Errorf("%v of %v is %s, required %v", c.values, c.kind, got.Type, got.Required)
		}
	}
}

// TestZeroBounds checks that the bounds of floats include both zeros, as the format asks.
func TestZeroBounds(t *testing.T) {
	for _, zero := range []float64{0, math.Copysign(0, -1)} {
		g := write(t, model.Float, parquet.Options{}, zero).Groups[0]
		if !math.Signbit(g.Least.(float64)) || math.Signbit(g.Greatest.(float64)) {
			t.Errorf("the bounds of %v are %v and %v", zero, g.Least, g.Greatest)
		}
	}
}

// TestLongTexts checks that long texts end dictionaries and groups, and are no bounds.
func TestLongTexts(t *testing.T) {
	var values []any
	for i := range 100 {
		values = append(values, strings.Repeat("x", 60_000)+fmt.Sprint(i))
	}
	c := write(t, model.String, parquet.Options{}, values...)
	if g := c.Groups[0]; g.Least != nil || !slices.Equal(g.Encodings, []int{0, 3, 8}) {
		t.Errorf("bounds %v, encodings %v", g.Least, g.Encodings)
	}
}

// TestGroupBytes checks that a group ends before its memory exceeds the limit by much.
func TestGroupBytes(t *testing.T) {
	most := int64(0)
	opt := parquet.Options{GroupBytes: 1 << 20, Charge: func(n int64) error { most = max(most, n); return nil }}
	var file bytes.Buffer
	w := parquet.NewWriter(&file, opt, parquet.Column{Name: "c", Type: model.Float})
	r := rand.New(rand.NewPCG(1, 1))
	v := &column.Vector{Type: model.Float, Floats: make([]float64, 1000)}
	for range 2000 {
		for i := range v.Floats {
			v.Floats[i] = r.Float64()
		}
		w.Vector(0, v, 1000)
		if err := w.Rows(1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	columns, err := parquettest.Read(file.Bytes())
	if err != nil || len(columns[0].Values) != 2_000_000 {
		t.Fatal(err)
	}
	if n := len(columns[0].Groups); n < 8 || most > 5<<20 {
		t.Errorf("%d groups, %d bytes of memory", n, most)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestErrors(t *testing.T) {
	refused := errors.New("too much")
	w := parquet.NewWriter(new(bytes.Buffer), parquet.Options{Charge: func(int64) error { return refused }}, parquet.Column{Name: "c", Type: model.Float})
	w.Nulls(0, 1)
	if err := w.Rows(1); !errors.Is(err, refused) {
		t.Errorf("an account that refuses: %v", err)
	}
	if err := w.Close(); !errors.Is(err, refused) {
		t.Errorf("Close behind an error: %v", err)
	}
	w = parquet.NewWriter(brokenWriter{}, parquet.Options{}, parquet.Column{Name: "c", Type: model.Float})
	w.Nulls(0, 1)
	if err := errors.Join(w.Rows(1), w.Close()); err == nil {
		t.Error("a broken output was accepted")
	}
}

func BenchmarkWriter(b *testing.B) {
	const n = 1000
	v := &column.Vector{Type: model.Float, Floats: make([]float64, n)}
	ints := &column.Vector{Type: model.Integer, Ints: make([]int64, n)}
	times := make([]int64, n)
	for i := range n {
		v.Floats[i], ints.Ints[i], times[i] = float64(i%50), int64(i%70), int64(i)*1e10
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, parquet.Options{}, parquet.Column{Name: "t", Type: model.Integer, Time: true, Required: true},
		parquet.Column{Name: "host", Type: model.String}, parquet.Column{Name: "f", Type: model.Float}, parquet.Column{Name: "i", Type: model.Integer})
	b.SetBytes(n)
	for i := 0; b.Loop(); i++ {
		out.Reset()
		w.Times(0, times)
		w.Text(1, fmt.Sprint("host", i%500), n)
		w.Vector(2, v, n)
		w.Vector(3, ints, n)
		if err := w.Rows(n); err != nil {
			b.Fatal(err)
		}
	}
}
