package rows_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
)

// recorder is a Writer that keeps what it gets as text.
type recorder struct{ got []string }

func (r *recorder) add(format string, args ...any) error {
	r.got = append(r.got, fmt.Sprintf(format, args...))
	return nil
}

func (r *recorder) Define(statements []string) error { return r.add("define %q", statements) }
func (r *recorder) Table(t *rows.Table) error        { return r.add("table %+v", *t) }
func (r *recorder) Close() error                     { return r.add("close") }
func (r *recorder) Abort()                           {}

func (r *recorder) Run(run *rows.Run) error {
	text, err := rows.Lines(context.Background(), &list{[]*rows.Run{run}, io.EOF}, "d", "p")
	if err != nil {
		return err
	}
	b, err := io.ReadAll(text)
	if err != nil {
		return err
	}
	_, lines, _ := strings.Cut(string(b), "POLICY:p\n")
	r.got = append(r.got, slices.Collect(strings.Lines(lines))...)
	return nil
}

// play writes some tables and runs, one of them with long texts.
func play(w rows.Writer) error {
	fields := []column.Field{
		{Key: "b", Type: model.Boolean},
		{Key: "f", Type: model.Float},
		{Key: "i", Type: model.Integer},
		{Key: "s", Type: model.String},
		{Key: "u", Type: model.Unsigned},
	}
	t := &rows.Table{Database: "d", Policy: "p", Measurement: "m", Start: -5, TagKeys: []string{"h"}, Fields: fields, AllTagKeys: []string{"h", "x"}, AllFields: fields}
	some := column.Bitmap{0b101}
	long := strings.Repeat("x", 1<<20)
	texts := column.Vector{Type: model.String}
	var times []int64
	for i := range 5 {
		texts.Strings = append(texts.Strings, long+fmt.Sprint(i))
		times = append(times, int64(i))
	}
	none := make([]column.Vector, 5)
	for i, f := range fields {
		none[i].Nulls(f.Type, 1)
	}
	empty := make([]column.Vector, 5)
	for i, f := range fields {
		empty[i].Nulls(f.Type, 5)
	}
	empty[3] = texts
	return errors.Join(
		w.Define([]string{"CREATE DATABASE \"d\""}),
		w.Table(t),
		w.Run(run("m,h=a", []int64{math.MinInt64 + 2, 0, math.MaxInt64 - 1}, fields,
			column.Vector{Type: model.Boolean, Bools: []bool{true, false, true}},
			column.Vector{Type: model.Float, Floats: []float64{math.Float64frombits(0x7ff0000000000002), 0, math.Inf(-1)}, Valid: some},
			column.Vector{Type: model.Integer, Ints: []int64{math.MinInt64, 0, math.MaxInt64}, Valid: some},
			column.Vector{Type: model.String, Strings: []string{"", "a\n\"", "\x00"}},
			column.Vector{Type: model.Unsigned, Uints: []uint64{math.MaxUint64, 0, 0}, Valid: column.Bitmap{0}})),
		w.Run(run("m,h=a", []int64{math.MaxInt64}, fields, column.Vector{Type: model.Boolean, Bools: []bool{true}}, column.Vector{Type: model.Float, Floats: []float64{1}},
			none[2], none[3], none[4])),
		w.Table(&rows.Table{Database: "d", Policy: "p", Measurement: "n", Fields: fields}),
		w.Run(run("n", times, fields, empty...)),
		w.Close())
}

// TestStream passes rows through a stream, also a byte at a time.
func TestStream(t *testing.T) {
	var want recorder
	if err := play(&want); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := play(rows.NewEncoder(&stream)); err != nil {
		t.Fatal(err)
	}
	got := recorder{}
	n, err := rows.Decode(bytes.NewReader(stream.Bytes()), &got)
	if err != nil || n != 9 {
		t.Fatalf("%d rows, %v", n, err)
	}
	_ = got.Close()
	for i := range want.got {
		if i >= len(got.got) || strings.ReplaceAll(got.got[i], "[]", "") != strings.ReplaceAll(want.got[i], "[]", "") {
			t.Fatalf("item %d differs:\n%.300v\nwant\n%.300s", i, got.got[min(i, len(got.got)-1)], want.got[i])
		}
	}
	for _, cut := range []int{0, 1, 100, stream.Len() / 2, stream.Len() - 1} {
		if _, err := rows.Decode(bytes.NewReader(stream.Bytes()[:cut]), new(recorder)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a stream of %d of %d bytes: %v", cut, stream.Len(), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var stream bytes.Buffer
	if err := play(rows.NewEncoder(&stream)); err != nil {
		f.Fatal(err)
	}
	f.Add(stream.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = rows.Decode(bytes.NewReader(b), new(recorder)) // it must not panic
	})
}
