package parquet_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"tsdbd/exchange/rows"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/sink/parquet"
)

// read opens the one file below dir and returns it with its rows. A float is its bits.
func read(t *testing.T, dir string) (*pq.File, [][]any) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("files %q, %v", paths, err)
	}
	b, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	file, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]any
	r := pq.NewReader(file)
	defer r.Close()
	for one := make([]pq.Row, 1); ; {
		n, err := r.ReadRows(one)
		for _, row := range one[:n] {
			var values []any
			for _, v := range row {
				switch {
				case v.IsNull():
					values = append(values, nil)
				case v.Kind() == pq.Double:
					values = append(values, math.Float64bits(v.Double()))
				case v.Kind() == pq.Boolean:
					values = append(values, v.Boolean())
				case v.Kind() == pq.ByteArray:
					values = append(values, string(v.ByteArray()))
				default:
					values = append(values, v.Int64())
				}
			}
			out = append(out, values)
		}
		if err == io.EOF {
			return file, out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write writes runs as one table.
func write(t *testing.T, table *rows.Table, runs ...*rows.Run) (dir string) {
	t.Helper()
	dir = t.TempDir()
	d := parquet.New(vfs.OS, dir)
	if err := d.Table(table); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if err := d.Run(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil || d.Files() != 1 {
		t.Fatalf("%d files, %v", d.Files(), err)
	}
	return dir
}

func newTable(tags []string, fields []column.Field) *rows.Table {
	return &rows.Table{Database: "d", Policy: "p", Measurement: "m", TagKeys: tags, Fields: fields, AllTagKeys: tags, AllFields: fields}
}

// randomValue adds a value of a type to v, often one at the edge of its type, and returns
// it as read does.
func randomValue(r *rand.Rand, v *column.Vector, words int) any {
	one := column.Vector{Type: v.Type}
	var out any
	switch v.Type {
	case model.Float:
		f := []float64{math.NaN(), math.Float64frombits(0x7ff0000000000002), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, r.NormFloat64()}[r.IntN(8)]
		one.Floats, out = []float64{f}, math.Float64bits(f)
	case model.Integer:
		one.Ints = []int64{[]int64{math.MinInt64, math.MaxInt64, 0, -1, r.Int64N(1000)}[r.IntN(5)]}
		out = one.Ints[0]
	case model.Unsigned:
		one.Uints = []uint64{[]uint64{math.MaxUint64, 1 << 63, 0, r.Uint64N(1000)}[r.IntN(4)]}
		out = int64(one.Uints[0])
	case model.Boolean:
		one.Bools = []bool{r.IntN(2) == 0}
		out = one.Bools[0]
	case model.String:
		one.Strings = []string{strings.Repeat("é\n\"'", r.IntN(5)) + fmt.Sprint(r.IntN(words))}
		out = one.Strings[0]
	}
	v.AppendFrom(&one, 0)
	return out
}

// TestRandomTables writes tables in runs of random sizes and reads them back.
func TestRandomTables(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	fields := []column.Field{{Key: "S", Type: model.String}, {Key: "a b", Type: model.Float}, {Key: "a-b", Type: model.Integer}, {Key: "u", Type: model.Unsigned}, {Key: "é", Type: model.Boolean}}
	for range 5 {
		var runs []*rows.Run
		var want [][]any
		words := []int{1, 3, 1_000_000}[r.IntN(3)]
		for series := range r.IntN(40) {
			run := &rows.Run{Key: fmt.Sprintf("m,host=h%d", series), Fields: fields}
			host, zone := any(fmt.Sprintf("h%d", series)), any(nil)
			if series%2 == 1 {
				run.Key, zone = run.Key+",zone=z", "z"
			}
			nulls := []float64{0, 0.01, 0.5, 1}[r.IntN(4)]
			run.Cols = make([]column.Vector, len(fields))
			for i := range fields {
				run.Cols[i].Reset(fields[i].Type)
			}
			for range 1 + r.IntN(rows.MaxRows) {
				at := r.Int64() >> r.IntN(64)
				run.Times = append(run.Times, at)
				row := []any{at, host, zone}
				for i := range fields {
					if r.Float64() < nulls {
						run.Cols[i].AppendNull()
						row = append(row, nil)
					} else {
						row = append(row, randomValue(r, &run.Cols[i], words))
					}
				}
				want = append(want, row)
			}
			runs = append(runs, run)
		}
		file, got := read(t, write(t, newTable([]string{"host", "zone"}, fields), runs...))
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("row %d is %v, want %v", i, got[i], want[i])
			}
		}
		var names []string
		for _, f := range file.Schema().Fields() {
			names = append(names, f.Name())
		}
		if !slices.Equal(names, []string{"time", "host", "zone", "S", "a b", "a-b", "u", "é"}) {
			t.Errorf("columns %q", names)
		}
	}
}

// TestTexts checks that columns with texts that are not UTF-8 are no strings, and that
// groups end when they hold many bytes.
func TestTexts(t *testing.T) {
	fields := []column.Field{{Key: "raw", Type: model.String}, {Key: "s", Type: model.String}}
	var runs []*rows.Run
	var want [][]any
	for i := range 20 {
		long := strings.Repeat(fmt.Sprint("x", i), 2<<20)
		run := &rows.Run{Key: "m,tag=\xff", Fields: fields, Rows: column.Rows{Times: []int64{int64(i)}, Cols: []column.Vector{
			{Type: model.String, Strings: []string{"\xff" + long}}, {Type: model.String, Strings: []string{long}},
		}}}
		runs = append(runs, run)
		want = append(want, []any{int64(i), "\xff", "\xff" + long, long})
	}
	file, got := read(t, write(t, newTable([]string{"tag"}, fields), runs...))
	if !reflect.DeepEqual(got, want) {
		t.Error("the values differ")
	}
	if n := len(file.RowGroups()); n < 2 {
		t.Errorf("%d row groups", n)
	}
	var types []string
	for _, f := range file.Schema().Fields() {
		types = append(types, f.Type().String())
	}
	if want := []string{"TIMESTAMP(isAdjustedToUTC=true,unit=NANOS)", "BYTE_ARRAY", "BYTE_ARRAY", "STRING"}; !slices.Equal(types, want) {
		t.Errorf("types %q, want %q", types, want)
	}
}

func BenchmarkDirectory(b *testing.B) {
	fields := []column.Field{{Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}}
	run := &rows.Run{Fields: fields, Rows: column.Rows{Times: make([]int64, rows.MaxRows), Cols: []column.Vector{
		{Type: model.Float, Floats: make([]float64, rows.MaxRows)}, {Type: model.Integer, Ints: make([]int64, rows.MaxRows)},
	}}}
	for i := range run.Times {
		run.Times[i], run.Cols[0].Floats[i], run.Cols[1].Ints[i] = int64(i)*1e10, float64(i%50), int64(i%70)
	}
	d := parquet.New(vfs.OS, b.TempDir())
	if err := d.Table(newTable([]string{"host"}, fields)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(rows.MaxRows)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		run.Key = fmt.Sprintf("m,host=h%d", i%500)
		if err := d.Run(run); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}
