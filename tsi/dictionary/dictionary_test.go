package dictionary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
)

// memory is a file of sections.
type memory struct{ data []byte }

func (m *memory) Path() string { return "x.tsi" }

func (m *memory) Checked(offset, size int64) ([]byte, error) {
	return mapped.InMemory(m.Path(), m.data).Checked(offset, size)
}

func (m *memory) write(b []byte) (offset int64, size int) {
	offset = int64(len(m.data))
	m.data = append(m.data, b...)
	m.data = binary.LittleEndian.AppendUint32(m.data, binio.PlacedChecksum(offset, b))
	return offset, len(b) + 4
}

// entry is a value and its ids.
type entry struct {
	value string
	ids   []uint32
}

// every returns n ids from first on, step apart.
func every(first, n, step uint32) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = first + uint32(i)*step
	}
	return ids
}

// write writes a tag of entries, which are sorted, and reads it back.
func write(t testing.TB, m *memory, w *Writer, entries []entry, all *roaring.Bitmap) *Tag {
	t.Helper()
	for _, e := range entries {
		w.Add([]byte(e.value), e.ids)
	}
	offset, size := w.Finish(all)
	if size == 0 {
		return nil
	}
	return read(t, m, offset, size, all)
}

func read(t testing.TB, m *memory, offset int64, size int, all *roaring.Bitmap) *Tag {
	t.Helper()
	b, err := m.Checked(offset, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	d := binio.NewDecoder(b)
	tag := ReadTag(&d, all, len(m.data))
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return tag
}

// testEntries are some thousand values of every length, each kind of posting among
// them.
func testEntries() []entry {
	var entries []entry
	for i := range 3000 {
		e := entry{value: fmt.Sprintf("host_%05d", i), ids: []uint32{uint32(i) + 1}}
		switch i % 300 {
		case 1:
			e.ids = every(uint32(i)+1, 100, 1000) // list
		case 2:
			e.ids = every(uint32(i)+1, 300, 1) // bitmap in the page
		case 3:
			e.ids = every(uint32(i)+1, 9000, 7) // bitmap elsewhere
		case 4:
			e.ids = every(uint32(i)+1, 250, 1<<22) // list elsewhere
		case 5:
			e.value += strings.Repeat("x", i*20)
		}
		entries = append(entries, e)
	}
	return entries
}

func TestRoundTrip(t *testing.T) {
	entries := testEntries()
	m := &memory{}
	w := NewWriter(m.write)
	if tag := write(t, m, w, nil, roaring.New()); tag != nil {
		t.Fatal("a tag without values was written")
	}
	// A writer keeps nothing of one tag for the next.
	first := write(t, m, w, entries, roaring.BitmapOf(1))
	tag := write(t, m, w, entries, roaring.BitmapOf(1))
	kinds := map[uint8]int{}
	for _, tag := range []*Tag{first, tag} {
		present := roaring.New()
		c := tag.Cursor(m)
		for i, e := range entries {
			if !c.Next() {
				t.Fatalf("ends at %d of %d values: %v", i, len(entries), c.Err())
			}
			kinds[c.Posting.kind]++
			ids, err := c.Posting.IDs(nil)
			if string(c.Value) != e.value || err != nil || !slices.Equal(ids, e.ids) {
				t.Fatalf("value %d is %.20q with %d ids, want %.20q with %d, %v", i, c.Value, len(ids), e.value, len(e.ids), err)
			}
			if n, err := c.Posting.Count(); n != len(e.ids) || err != nil {
				t.Fatalf("%.20q: count %d, %v", e.value, n, err)
			}
			present.AddMany(e.ids)
		}
		if c.Next() || c.Err() != nil {
			t.Fatalf("does not end: %v", c.Err())
		}
		if tag.Values != len(entries) || !tag.Present.Equals(present) {
			t.Fatalf("%d values, %d series", tag.Values, tag.Present.GetCardinality())
		}
	}
	if len(kinds) != 4 {
		t.Fatalf("kinds of postings: %v", kinds)
	}
}

// TestLongValues: what stays in memory of values of 60 kB is short, and each is found
// between texts next to it.
func TestLongValues(t *testing.T) {
	var entries []entry
	long := strings.Repeat("v", 60_000)
	for i := range uint32(40) {
		entries = append(entries, entry{fmt.Sprintf("%02d%s", i, long), []uint32{i + 1}})
	}
	m := &memory{}
	w := NewWriter(m.write)
	for range 2 {
		tag := write(t, m, w, entries, roaring.New())
		for i, p := range tag.pages {
			if len(p.bound) > 2 {
				t.Errorf("the bound of page %d has %d bytes", i, len(p.bound))
			}
		}
		for i, e := range entries {
			for _, near := range []string{e.value[:1], e.value[:2], e.value[:3], e.value[:len(e.value)-1], e.value, e.value + "v"} {
				want := slices.IndexFunc(entries, func(e entry) bool { return e.value >= near })
				c := tag.Cursor(m)
				if c.Seek(near); c.Next() != (want >= 0) || want >= 0 && string(c.Value) != entries[want].value {
					t.Fatalf("value %d: a seek of %d of its bytes goes to %.5q of %d bytes, %v", i, len(near), c.Value, len(c.Value), c.Err())
				}
			}
			if from := tag.Before(len(entries) - i); from > e.value || i > 0 && from <= entries[i-1].value {
				t.Errorf("before %d values is %q", len(entries)-i, from)
			}
		}
	}
}

// TestFind looks up values that are there and values before, between and behind
// them.
func TestFind(t *testing.T) {
	entries := testEntries()
	m := &memory{}
	tag := write(t, m, NewWriter(m.write), entries, roaring.New())
	for i, e := range entries {
		p, ok, err := tag.Find(m, e.value)
		if !ok || err != nil {
			t.Fatalf("%.20q is not found: %v", e.value, err)
		}
		if ids, err := p.IDs(nil); err != nil || !slices.Equal(ids, e.ids) {
			t.Fatalf("%.20q has %d ids, %v", e.value, len(ids), err)
		}
		if _, ok, err := tag.Find(m, e.value+"\x00"); ok || err != nil {
			t.Fatalf("%.20q with a byte more is found: %v", e.value, err)
		}
		c := tag.Cursor(m)
		if !c.Seek(e.value+"\x00") || c.Next() != (i+1 < len(entries)) || c.Err() != nil {
			t.Fatalf("seek behind %.20q: %v", e.value, c.Err())
		}
		if i+1 < len(entries) && string(c.Value) != entries[i+1].value {
			t.Fatalf("behind %.20q stands %.20q", e.value, c.Value)
		}
	}
	for _, value := range []string{"", "a", "host_", "i"} {
		if _, ok, err := tag.Find(m, value); ok || err != nil {
			t.Errorf("%q is found: %v", value, err)
		}
	}
	for _, n := range []int{1, 2, 100, 2999, 3000, 3001} {
		before := tag.Before(n)
		behind := 0
		for _, e := range entries {
			if e.value >= before {
				behind++
			}
		}
		if behind < min(n, len(entries)) || n > len(entries) && before != "" {
			t.Errorf("Before(%d) is %.20q, from which there are %d values", n, before, behind)
		}
	}
}

// TestSets writes sets as lists, bitmaps, and as the set of all.
func TestSets(t *testing.T) {
	m := &memory{}
	w := NewWriter(m.write)
	for _, c := range []struct {
		name string
		ids  []uint32
		kind byte
	}{
		{"empty", nil, setEmpty},
		{"one", []uint32{7}, setList},
		{"highest", []uint32{1<<32 - 1}, setList},
		{"few far apart", every(1, 200, 1<<20), setList},
		{"a run", every(1, 100_000, 1), setRoaring},
		{"dense", every(1, 20_000, 2), setRoaring},
	} {
		set := roaring.BitmapOf(c.ids...)
		b := w.AppendSet(nil, set)
		d := binio.NewDecoder(b)
		got := ReadSet(&d, nil)
		if b[0] != c.kind || d.Err() != nil || d.Len() != 0 || !got.Equals(set) {
			t.Errorf("%s: kind %d, %v", c.name, b[0], d.Err())
		}
	}
	all := roaring.BitmapOf(every(1, 10, 1)...)
	if tag := write(t, m, w, []entry{{"v", all.ToArray()}}, all); tag.Present != all {
		t.Error("a tag of all series has a set of its own")
	}
	for _, b := range [][]byte{nil, {setAll}, {9}, {setList, 2, 1, 2}, {setList, 200}, {setRoaring, 1, 1}, {setRoaring, 0}} {
		d := binio.NewDecoder(b)
		if ReadSet(&d, nil); !errors.Is(d.Err(), binio.ErrCorrupt) {
			t.Errorf("% x: %v", b, d.Err())
		}
	}
}

// TestCollector unites ids in any order, over its own limits.
func TestCollector(t *testing.T) {
	for name, lists := range map[string][][]uint32{
		"none":           nil,
		"few":            {{3, 9}, {3}},
		"many":           {every(5, collectorFew+10, 3), every(1, 100, 9)},
		"bitmap alone":   {every(1, largeBitmap*2, 1)},
		"bitmap and few": {{1 << 30}, every(1, largeBitmap*2, 1), {1<<30 + 1}},
		"two bitmaps":    {every(1, largeBitmap*2, 1), every(100_000, largeBitmap*2, 1), every(3, 6000, 11)},
	} {
		var c Collector
		want := roaring.New()
		for _, ids := range lists {
			want.AddMany(ids)
			var e setEncoder
			kind, data := e.encode(0, ids)
			p := Posting{kind: kind, n: len(ids), data: data}
			if err := c.AddPosting(&p); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.Set(); !got.Equals(want) {
			t.Errorf("%s: %d ids, want %d", name, got.GetCardinality(), want.GetCardinality())
		}
	}
}

// FuzzPage walks arbitrary pages with a right checksum.
func FuzzPage(f *testing.F) {
	m := &memory{}
	tag := write(f, m, NewWriter(m.write), testEntries()[:600], roaring.New())
	for _, p := range tag.pages {
		b, err := m.Checked(p.offset, int64(p.size))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(p.n), b)
	}
	f.Fuzz(func(t *testing.T, n uint16, b []byte) {
		m := &memory{}
		_, size := m.write(b)
		tag := &Tag{pages: []pageRef{{size: int32(size), n: int32(n) + 1}}}
		c := tag.Cursor(m)
		for c.Next() {
			_, err := c.Posting.IDs(nil)
			wantCorrupt(t, err)
		}
		wantCorrupt(t, c.Err())
		c = tag.Cursor(m)
		c.Seek("host_5")
		c.Next()
		wantCorrupt(t, c.Err())
	})
}

// FuzzTag reads arbitrary tag sections and walks what is sound.
func FuzzTag(f *testing.F) {
	m := &memory{}
	w := NewWriter(m.write)
	for _, e := range testEntries()[:600] {
		w.Add([]byte(e.value), e.ids)
	}
	offset, size := w.Finish(roaring.New())
	b, err := m.Checked(offset, int64(size))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := binio.NewDecoder(b)
		tag := ReadTag(&d, roaring.BitmapOf(1), len(m.data))
		wantCorrupt(t, d.Err())
		if d.Err() == nil {
			c := tag.Cursor(m)
			for c.Next() {
			}
			wantCorrupt(t, c.Err())
		}
	})
}

func wantCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("error is not ErrCorrupt: %v", err)
	}
}
