package tsi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
)

func wantCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("error is not ErrCorrupt: %v", err)
	}
}

// FuzzFileSection feeds sections of a TSI file with a right checksum.
func FuzzFileSection(f *testing.F) {
	file := testFile(f, newFS(), "x.tsi", 100)
	for _, m := range file.measured {
		b, err := file.section(m.offset, m.size)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(0), b)
		body, _ := file.body(m)
		for _, r := range body.tags {
			b, _ := file.section(r.offset, r.size)
			f.Add(byte(1), b)
			tag, _ := file.loadTag(body, r)
			for _, p := range tag.pages {
				b, _ := file.section(p.offset, int64(p.size))
				f.Add(byte(3+p.n<<2), b)
			}
		}
	}
	f.Add(byte(2), append([]byte{1, 1, 'm', 1, 1, 'f', 1}, 0, 16, 5))
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		data := binary.LittleEndian.AppendUint32(slices.Clone(b), binio.PlacedChecksum(0, b))
		size := int64(len(data))
		x := &File{path: "x.tsi", data: data, info: FileInfo{Measurements: 1}}
		switch kind & 3 {
		case 0:
			_, err := x.body(&fileMeasurement{size: size, series: 1})
			wantCorrupt(t, err)
		case 1:
			tag, err := x.loadTag(&fileBody{set: roaring.BitmapOf(1)}, &fileTagRef{size: size})
			wantCorrupt(t, err)
			if err == nil {
				c := tag.cursor(x)
				for c.next() {
				}
				wantCorrupt(t, c.err)
			}
		case 2:
			wantCorrupt(t, x.loadDirectory(b, 0))
		case 3:
			tag := &fileTag{pages: []pageRef{{size: int32(size), n: int32(kind>>2) + 1}}}
			c := tag.cursor(x)
			for c.next() {
				_, err := c.post.ids(nil)
				wantCorrupt(t, err)
			}
			wantCorrupt(t, c.err)
			c = tag.cursor(x)
			c.seek("host_5")
			c.next()
			wantCorrupt(t, c.err)
		}
	})
}

// FuzzOpenFile opens arbitrary bytes behind a right footer checksum.
func FuzzOpenFile(f *testing.F) {
	fs := newFS()
	testFile(f, fs, "x.tsi", 20)
	f.Add(fs.Content("x.tsi"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = slices.Clone(data)
		if at := len(data) - footerBytes; at >= 0 {
			binary.LittleEndian.PutUint32(data[len(data)-12:], binio.PlacedChecksum(int64(at), data[at:len(data)-12]))
		}
		fs := newFS()
		put(t, fs, "x.tsi", data)
		x, err := OpenFile(fs, "x.tsi")
		if errors.Is(err, ErrVersion) {
			return
		}
		wantCorrupt(t, err)
		if err == nil {
			wantCorrupt(t, x.Verify())
			index, err := NewIndex(IndexOptions{Files: []*File{x}})
			wantCorrupt(t, err)
			if err == nil {
				index.Close()
			}
		}
	})
}

// FuzzRoaring: what validRoaring passes, the library reads without a fault and
// finds valid.
func FuzzRoaring(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 10, 5000, 70000} {
		bm := roaring.New()
		for range n {
			bm.Add(r.Uint32N(uint32(n) * 3))
		}
		for range 2 {
			b, _ := bm.ToBytes()
			if len(b) < 1<<15 {
				f.Add(b)
			}
			if !validRoaring(b) {
				f.Fatalf("%d ids refused", n)
			}
			bm.AddRange(uint64(n), uint64(n)*2)
			bm.RunOptimize()
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !validRoaring(b) {
			return
		}
		bm := roaring.New()
		n, err := bm.ReadFrom(bytes.NewReader(b))
		if err != nil || n != int64(len(b)) {
			t.Fatalf("read %d of %d: %v", n, len(b), err)
		}
		if bm.GetCardinality() > 1<<20 {
			return // runs are short, what they stand for is not
		}
		ids := bm.ToArray()
		if len(ids) != int(bm.GetCardinality()) || !slices.IsSorted(ids) {
			t.Fatal("not a set")
		}
	})
}

// FuzzRegex compares the automaton with package regexp.
func FuzzRegex(f *testing.F) {
	for _, e := range testRegexes {
		f.Add(e, "host_12", "host_1x")
		f.Add(e, "日本", "línea\nzwei")
	}
	f.Fuzz(func(t *testing.T, expr, a, b string) {
		if len(expr) > 100 {
			return
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return
		}
		m, err := newValueMatcher(re, NewWork(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		prev := ""
		for _, v := range []string{a, b, a + b, b, ""} {
			want := re.MatchString(v)
			if got := m.match([]byte(v), keyblock.SharedPrefix(prev, v)); got != want {
				t.Fatalf("%q on %q after %q: %v", expr, v, prev, got)
			}
			if got := m.matchString(v); got != want {
				t.Fatalf("%q on %q: matchString %v, places %+v", expr, v, got, m.places)
			}
			prev = v
		}
	})
}
