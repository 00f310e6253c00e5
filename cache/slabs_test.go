package cache

import (
	"fmt"
	"slices"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestSlabs gives the memory of caches that nobody reads any more to other caches.
func TestSlabs(t *testing.T) {
	layout := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "s", Type: model.String}, {Key: "v", Type: model.Integer}}}
	kept := NewSlabs(1 << 20)
	text := []byte("text")
	fill := func(from, rows int) *Cache {
		c := New(nil, kept)
		for i := range rows {
			c.Apply([]point.Row{{Series: series(model.SeriesID(1 + i%3)), Layout: layout, Time: int64(from + i)}}, []uint64{column.StringWord(0, len(text)), uint64(from + i)}, text)
		}
		return c
	}
	read := func(c *Cache) (rows column.Rows, all string) {
		g := NewGatherer(c)
		for id := range 3 {
			if g.Gather(&rows, model.SeriesID(1+id), layout.Fields, model.AllTime) {
				all += fmt.Sprintln(rows.Times, rows.Cols[0].Strings, rows.Cols[1].Ints)
			}
		}
		return rows, all
	}
	first := fill(0, 5000)
	rows, before := read(first)
	strings := slices.Clone(rows.Cols[0].Strings)

	// While there is a reader, nobody gets the memory.
	first.Acquire()
	first.Release()
	second := fill(10_000, 3000)
	if _, now := read(first); now != before || kept.Bytes() != 0 {
		t.Errorf("%d bytes of a cache with a reader were given away, the rows are\n%.200s, and were\n%.200s", kept.Bytes(), now, before)
	}
	had := first.mu.arena.bytes
	first.Release()
	if n := kept.Bytes(); n != had || had == 0 {
		t.Errorf("%d bytes of %d are kept", n, had)
	}
	if _, now := read(first); now != "" || first.Rows() != 0 || len(first.Series()) != 0 {
		t.Errorf("a cache without a reader has rows: %.200s", now)
	}
	third := fill(20_000, 5000)
	if n := kept.Bytes(); n != 0 {
		t.Errorf("%d bytes are kept beside a cache of the same size", n)
	}
	for _, s := range strings {
		if s != "text" {
			t.Fatalf("a string of the first cache is %q", s)
		}
	}
	// Used memory holds the same rows as new memory.
	fresh := fill(20_000, 5000)
	_, want := read(fresh)
	if _, got := read(third); got != want {
		t.Errorf("rows are\n%.200s, want\n%.200s", got, want)
	}

	// What no cache needs for a while is given up. A limit bounds what is kept.
	second.Release()
	third.Release()
	sum := kept.Bytes()
	check := func(want int64) {
		t.Helper()
		if n := kept.Bytes(); n != want {
			t.Errorf("%d bytes are kept, want %d", n, want)
		}
	}
	kept.trimLocked(false)
	check(sum)
	fourth := fill(0, 5000)
	left := kept.Bytes()
	fourth.Release()
	check(sum)
	kept.trimLocked(false)
	check(sum - left)
	if left == 0 || left == sum {
		t.Errorf("%d bytes of %d were not needed", left, sum)
	}
	kept.Trim(true)
	check(0)
	kept.limit = 20 << 10
	fresh.mu.arena.kept = kept
	fresh.Release()
	if n := kept.Bytes(); n == 0 || n > kept.limit {
		t.Errorf("%d bytes are kept of %d", n, kept.limit)
	}
}
