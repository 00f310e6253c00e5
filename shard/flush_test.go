package shard

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// TestFlushedCachesAreFree: nothing holds a cache whose rows are in a file.
func TestFlushedCachesAreFree(t *testing.T) {
	b := fixed(t)
	defer b.close()
	active := func() weak.Pointer[cache.Cache] {
		b.s.mu.RLock()
		defer b.s.mu.RUnlock()
		return weak.Make(b.s.mu.active)
	}
	for round := range 3 {
		b.put(round, 10, 0, 1)
		old := active()
		b.flush()
		runtime.GC()
		if old.Value() != nil {
			t.Errorf("flush %d: the cache is still held", round)
		}
	}
}

// TestViewKeepsFlushedRows reads a view whose cache was flushed since, while other caches take
// all memory that they can get. With the view, the memory is free.
func TestViewKeepsFlushedRows(t *testing.T) {
	b := fixed(t)
	defer b.close()
	for i := range b.series {
		b.put(i, 3000, int64(i), 7)
	}
	read := func(v *View) (all string) {
		req := scan.Request{Measurement: "m", Fields: []string{modelFields[1].Key}, Series: v.AllSeries(), Range: model.AllTime}
		for c := b.cursor(v, req); ; {
			s, ok := c.NextSeries()
			if !ok {
				return all
			}
			for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
				col, err := ch.Column(0)
				if err != nil {
					t.Fatal(err)
				}
				times, err := ch.Times()
				if err != nil {
					t.Fatal(err)
				}
				all += fmt.Sprint(s, times, col.Type, col.Floats, col.Ints)
			}
		}
	}
	v := b.s.View()
	before := read(v)
	b.flush()
	for i := range b.series {
		b.put(i, 3000, int64(i), 9)
	}
	if now := read(v); now != before || len(before) < 3000 || b.options.Slabs.Bytes() != 0 {
		t.Errorf("a flush changed %d bytes of rows to %d, and gave away %d", len(before), len(now), b.options.Slabs.Bytes())
	}
	v.Release()
	if b.options.Slabs.Bytes() == 0 {
		t.Error("without the view no memory is free")
	}
	b.flush()
	b.check()
}
