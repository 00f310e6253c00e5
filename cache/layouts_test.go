package cache

import (
	"fmt"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestEqualLayouts appends rows whose layouts are equal and never the same
// pointer, as a table hands them out once it is full. They must count as one, or
// the cache grows by them and runs out of numbers.
func TestEqualLayouts(t *testing.T) {
	obs := &observed{}
	c := New(obs, nil)
	s := series(1)
	const n = 20_000
	values := make([]uint64, 2)
	for i := range n {
		values[0], values[1] = uint64(i), uint64(2*i)
		l := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "a", Type: model.Integer}}}
		if i%2 == 1 {
			l.Fields = append(l.Fields, column.Field{Key: "b", Type: model.Integer})
		}
		c.Apply([]point.Row{{Series: s, Layout: l, Time: int64(i)}}, values, nil)
	}
	if obs.layouts != 2 {
		t.Errorf("%d layouts were announced, want 2", obs.layouts)
	}
	g := NewGatherer(c)
	var rows column.Rows
	g.Gather(&rows, 1, []column.Field{{Key: "a", Type: model.Integer}, {Key: "b", Type: model.Integer}}, model.AllTime)
	if rows.Len() != n {
		t.Fatalf("%d rows, want %d", rows.Len(), n)
	}
	for i, at := range rows.Times {
		if at != int64(i) || rows.Cols[0].Ints[i] != int64(i) || rows.Cols[1].IsValid(i) != (i%2 == 1) || i%2 == 1 && rows.Cols[1].Ints[i] != int64(2*i) {
			t.Fatalf("row %d: time %d, values %d, %d", i, at, rows.Cols[0].Ints[i], rows.Cols[1].Ints[i])
		}
	}
}

// TestLayoutsAreCounted fills a cache with rows of a layout each: what the
// layouts take must show in Bytes, or writers fill the memory with little data.
func TestLayoutsAreCounted(t *testing.T) {
	c := New(nil, nil)
	s := series(1)
	const n = 10_000
	text := 0
	for i := range n {
		l := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: fmt.Sprintf("field_with_a_long_name_%d", i), Type: model.Integer}}}
		text += len(l.Fields[0].Key)
		c.Apply([]point.Row{{Series: s, Layout: l, Time: int64(i)}}, []uint64{1}, nil)
	}
	if got, rows := c.Bytes(), int64(n*(headWords+2)*8); got < rows+int64(text) {
		t.Errorf("cache counts %d bytes; its rows take %d, the names of its layouts %d", got, rows, text)
	}
}

// TestForgetKeepsLayouts forgets series again and again: layouts announce
// themselves anew, and the cache does not grow by them.
func TestForgetKeepsLayouts(t *testing.T) {
	obs := &observed{}
	c := New(obs, nil)
	s := series(1)
	l := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "a", Type: model.Integer}}}
	const rounds = 100
	for i := range rounds {
		c.Apply([]point.Row{{Series: s, Layout: l, Time: int64(i)}}, []uint64{uint64(i)}, nil)
		c.Delete(roaring.BitmapOf(1), model.AllTime)
		c.Forget(roaring.BitmapOf(1))
	}
	if obs.layouts != rounds || len(obs.series) != rounds {
		t.Errorf("%d layouts and %d series were announced, want %d", obs.layouts, len(obs.series), rounds)
	}
	if n := len(c.mu.layouts); n != 1 {
		t.Errorf("the cache keeps %d layouts, want 1", n)
	}
}
