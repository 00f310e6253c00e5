package dictionary

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
)

// TestUnion walks random dictionaries, and compares with a map.
func TestUnion(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for range 50 {
		want := map[string][]uint32{}
		var u Union
		for number := range uint32(r.IntN(8)) {
			values := map[string]bool{}
			for range r.IntN(400) {
				values[fmt.Sprint("v", r.IntN(600))] = true
			}
			if len(values) == 0 {
				continue
			}
			f := &memory{}
			w := NewWriter(f.write)
			for _, v := range slices.Sorted(maps.Keys(values)) {
				w.Add([]byte(v), []uint32{1})
				want[v] = append(want[v], number)
			}
			offset, size := w.Finish(roaring.BitmapOf(1))
			raw, err := f.Checked(offset, int64(size))
			if err != nil {
				t.Fatal(err)
			}
			d := binio.NewDecoder(raw)
			u.Add(f, ReadTag(&d, roaring.BitmapOf(1), 1<<20), number)
		}
		got := map[string][]uint32{}
		last := ""
		for u.Next() {
			if string(u.Value) <= last {
				t.Fatalf("%q after %q", u.Value, last)
			}
			last = string(u.Value)
			got[last] = slices.Clone(u.Tags)
		}
		if !maps.EqualFunc(got, want, slices.Equal) || u.Err() != nil {
			t.Fatalf("%v %v, want %v", got, u.Err(), want)
		}
	}
}

// TestUnionBytes holds UnionBytes to what the heap says.
func TestUnionBytes(t *testing.T) {
	const tags = 4000
	f := &memory{}
	w := NewWriter(f.write)
	for i := range 100 {
		w.Add(fmt.Appendf(nil, "server-%03d", i), []uint32{1})
	}
	offset, size := w.Finish(roaring.BitmapOf(1))
	raw, err := f.Checked(offset, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	none := roaring.New()
	before := heap()
	var u Union
	u.Reserve(tags)
	for n := range uint32(tags) {
		d := binio.NewDecoder(raw)
		u.Add(f, ReadTag(&d, none, 1<<20), n)
	}
	each := int(heap()-before) / tags
	if !u.Next() || len(u.Tags) != tags {
		t.Fatalf("%d tags, %v", len(u.Tags), u.Err())
	}
	if each > UnionBytes || each < UnionBytes/2 {
		t.Errorf("a tag takes %d bytes, UnionBytes says %d", each, UnionBytes)
	}
}
