package wal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// sample builds a log of two closed segments and one that a crash left open,
// and returns its files and entries.
func sample(t testing.TB) (*vfstest.FS, map[uint64]string) {
	t.Helper()
	fs := vfstest.New()
	want := map[uint64]string{}
	w := entrytest.NewWorld(rand.New(rand.NewPCG(3, 5)))
	l, _ := open(t, Options{FS: fs, SegmentBytes: 4 << 10})
	for i := range 12 {
		e := w.Entry(3)
		if i%4 == 3 {
			if err := l.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		s := mustAppend(t, l, e)
		want[e.Sequence] = s
	}
	c := fs.CrashLocked(rand.New(rand.NewPCG(1, 1)), 0)
	mustClose(t, l)
	if want[uint64(len(want))] == "" {
		t.Fatal("the last entry is empty")
	}
	return c, want
}

// recordsEnd returns where the records of an undamaged segment end.
func recordsEnd(data []byte) int {
	off := segmentHeaderSize
	for {
		h, ok := parseRecordHeader(data[off:])
		if !ok || h.kind == typeEnd {
			return off
		}
		off += recordHeaderSize + h.length
	}
}

// checkSubset fails when an entry is there that was not written as it is.
func checkSubset(t *testing.T, what string, got, want map[uint64]string) {
	t.Helper()
	for seq, g := range got {
		if want[seq] != g {
			t.Fatalf("%s: entry %d is %q, want %q", what, seq, g, want[seq])
		}
	}
}

// TestTruncateEveryOffset cuts the last segment at every length: entries that
// lie before the cut are all there. As no crash makes a segment shorter, it is
// damage.
func TestTruncateEveryOffset(t *testing.T) {
	fs, want := sample(t)
	segs := segments(fs)
	last := segs[len(segs)-1]
	size := len(fs.Content(last))
	best := 0
	for n := size; n >= 0; n -= testseed.Stride() {
		c := fs.Clone()
		if err := c.Truncate(last, int64(n)); err != nil {
			t.Fatal(err)
		}
		l, got := open(t, Options{FS: c, SegmentBytes: 4 << 10})
		checkSubset(t, fmt.Sprintf("cut at %d", n), got, want)
		for seq := range got {
			if _, ok := got[seq-1]; seq > 1 && !ok {
				t.Fatalf("cut at %d: entry %d without the one before", n, seq)
			}
		}
		if n == size {
			best = len(got)
			if best != len(want) {
				t.Fatalf("whole log: %d entries, want %d", best, len(want))
			}
		}
		if len(got) > best {
			t.Fatalf("cut at %d: %d entries, %d in the longer file", n, len(got), best)
		}
		best = len(got)
		if ds := l.Damage(); n == size && len(ds) != 0 || n >= segmentHeaderSize && n < size &&
			(len(ds) != 1 || ds[0].Torn || ds[0].Harmless || ds[0].First != uint64(len(got))+1 || !strings.Contains(ds[0].Reason, "segment is cut from")) {
			t.Fatalf("cut at %d: %+v", n, ds)
		}
		if lost, err := Lost(c, "w"); err != nil || n >= segmentHeaderSize && (len(lost) != 0) != (n < size) {
			t.Fatalf("cut at %d: losses %v, %v", n, lost, err)
		}
		// The log goes on, and the cut is not found a second time.
		e := entrytest.Note(entrytest.Series(1000), 1, 10, "next")
		mustAppend(t, l, e)
		mustClose(t, l)
		l, again := open(t, Options{FS: c, SegmentBytes: 4 << 10})
		if len(again) != len(got)+1 || n >= segmentHeaderSize && len(l.Damage()) != 0 {
			t.Fatalf("cut at %d: %d entries after %d, damage %+v", n, len(again), len(got), l.Damage())
		}
		mustClose(t, l)
	}
}

// TestFlipEveryByte inverts every byte of every segment: no wrong entry, and
// whatever is missing is told.
func TestFlipEveryByte(t *testing.T) {
	fs, want := sample(t)
	flips, lost := 0, 0
	for _, name := range segments(fs) {
		data := fs.Content(name)
		end := len(data)
		for end > 0 && data[end-1] == 0 {
			end--
		}
		for i := 0; i < min(end+recordHeaderSize, len(data)); i += testseed.Stride() {
			for _, mask := range []byte{0xff, 1 << (i % 8)} {
				flips++
				c := fs.Clone()
				if err := c.Flip(name, int64(i), mask); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s byte %d ^ %#x", name, i, mask)
				l, err := Open("w", Options{FS: c, SegmentBytes: 4 << 10})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				got := map[uint64]string{}
				if err := l.Replay(func(e *entry.Entry) error { got[e.Sequence] = entrytest.Text(e); return nil }); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				checkSubset(t, what, got, want)
				if missing := len(want) - len(got); missing > 0 {
					lost++
					if len(l.Damage()) == 0 {
						t.Fatalf("%s: %d entries lost in silence", what, missing)
					}
					for _, d := range l.Damage() {
						if d.Bytes > 0 && d.Quarantine == "" {
							t.Fatalf("%s: not set aside: %+v", what, d)
						}
					}
				}
				if i < segmentHeaderSize && len(got) != len(want) {
					t.Fatalf("%s: a damaged header lost entries", what)
				}
				mustClose(t, l)
			}
		}
	}
	t.Logf("%d flips, %d lost an entry, all told", flips, lost)
	if lost == 0 {
		t.Error("no flip did any harm: the test tests nothing")
	}
}

// TestDamageInTheMiddle destroys a record between good ones.
func TestDamageInTheMiddle(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs})
	s := entrytest.Series(1)
	want := map[uint64]string{}
	for i := range 9 {
		e := entrytest.Note(s, 1, 3000, fmt.Sprint("entry", i))
		w := mustAppend(t, l, e)
		want[e.Sequence] = w
	}
	mustClose(t, l)
	name := segments(fs)[0]
	data := fs.Content(name)
	at := strings.Index(string(data), "entry4")
	clear(data[at-100 : at+100])
	put(t, fs, name, data)

	for range 2 { // told at every opening, as long as it is there
		l, got := open(t, Options{FS: fs})
		maps.DeleteFunc(want, func(seq uint64, _ string) bool { return got[seq] == "" })
		if len(got) != 7 || !maps.Equal(got, want) || got[9] == "" || got[1] == "" {
			t.Fatalf("got %d entries", len(got))
		}
		ds := l.Damage()
		if len(ds) != 1 || ds[0].Torn || ds[0].Segment != name || ds[0].Offset > int64(at-100) || ds[0].Offset+ds[0].Bytes < int64(at+100) {
			t.Fatalf("damage %+v", ds)
		}
		copied, err := vfs.ReadFile(fs, ds[0].Quarantine)
		if err != nil || int64(len(copied)) != ds[0].Bytes {
			t.Fatalf("quarantine: %d bytes, %v", len(copied), err)
		}
		mustClose(t, l)
	}
}

// TestDamageOutsideRecords: missing, swapped, copied, foreign and new files.
func TestDamageOutsideRecords(t *testing.T) {
	fs, want := sample(t)
	segs := segments(fs)
	if len(segs) < 3 {
		t.Fatal("sample is too small")
	}
	t.Run("middle segment removed", func(t *testing.T) {
		c := fs.Clone()
		_ = c.Remove(segs[1])
		l, got := open(t, Options{FS: c})
		defer mustClose(t, l)
		checkSubset(t, "removed", got, want)
		if ds := l.Damage(); len(ds) != 1 || ds[0].Torn || !strings.Contains(ds[0].Reason, "missing") {
			t.Fatalf("damage %+v", ds)
		}
	})
	t.Run("segments swapped", func(t *testing.T) {
		c := fs.Clone()
		put(t, c, segs[0], fs.Content(segs[1]))
		put(t, c, segs[1], fs.Content(segs[0]))
		l, got := open(t, Options{FS: c})
		defer mustClose(t, l)
		if !maps.Equal(got, want) || len(l.Damage()) != 2 {
			t.Fatalf("%d entries, damage %+v", len(got), l.Damage())
		}
	})
	t.Run("segment copied", func(t *testing.T) {
		c := fs.Clone()
		put(t, c, "w/000000000999.wal", c.Content(segs[1]))
		l, got := open(t, Options{FS: c})
		defer mustClose(t, l)
		if !maps.Equal(got, want) || len(l.Damage()) == 0 {
			t.Fatalf("%d entries, damage %+v", len(got), l.Damage())
		}
	})
	t.Run("other files", func(t *testing.T) {
		c := fs.Clone()
		for _, name := range []string{"w/LOCK", "w/x.wal", "w/1.wal", "w/-00000000001.wal"} {
			put(t, c, name, []byte("not ours"))
		}
		l, got := open(t, Options{FS: c})
		defer mustClose(t, l)
		if !maps.Equal(got, want) || len(l.Damage()) != 0 {
			t.Fatalf("%d entries, damage %+v", len(got), l.Damage())
		}
	})
	t.Run("empty and zero files", func(t *testing.T) {
		for _, n := range []int{0, 1, 4096} {
			c := fs.Clone()
			put(t, c, "w/000000000999.wal", make([]byte, n))
			l, got := open(t, Options{FS: c})
			if !maps.Equal(got, want) || len(l.Damage()) != 1 || !l.Damage()[0].Torn {
				t.Fatalf("%d zeros: %d entries, damage %+v", n, len(got), l.Damage())
			}
			mustClose(t, l)
		}
	})
	t.Run("newer version", func(t *testing.T) {
		c := fs.Clone()
		b := c.Content(segs[1])
		b[8] = formatVersion + 1
		sum := binio.Checksum(b[:68])
		b[68], b[69], b[70], b[71] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		put(t, c, segs[1], b)
		c.SetHook(func(op vfstest.Op) error {
			if op.Kind != "syncdir" {
				t.Errorf("%s of %s", op.Kind, op.Path)
			}
			return nil
		})
		if _, err := Open("w", Options{FS: c}); !errors.Is(err, binio.ErrVersion) {
			t.Fatalf("opened: %v", err)
		}
	})
}

// TestGarbageBehindTheEnd appends what a torn write may leave.
func TestGarbageBehindTheEnd(t *testing.T) {
	rng := newRand(t)
	fs, want := sample(t)
	segs := segments(fs)
	last := segs[len(segs)-1]
	end := recordsEnd(fs.Content(last))
	for n := 1; n <= 512; n += 7 {
		c := fs.Clone()
		b := c.Content(last)
		clear(b[end:])
		for i := range n {
			b[end+i] = byte(rng.Uint32())
		}
		b[end] |= 1
		put(t, c, last, b)
		l, got := open(t, Options{FS: c}) // a torn tail is no reason to refuse
		ds := l.Damage()
		if !maps.Equal(got, want) || len(ds) != 1 || !ds[0].Torn || ds[0].Bytes < int64(n)-1 || ds[0].Quarantine == "" {
			t.Fatalf("%d bytes: %d entries, damage %+v", n, len(got), ds)
		}
		mustClose(t, l)
	}
}

// TestHostileHeaders puts record headers everywhere behind a damaged record:
// the search must end soon.
func TestHostileHeaders(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs})
	s := entrytest.Series(1)
	mustAppend(t, l, entrytest.Note(s, 1, 10, "a"))
	mustClose(t, l)
	name := segments(fs)[0]
	b := fs.Content(name)[:segmentHeaderSize]
	fake := appendRecord(nil, 1, 2, typeEntry, 0, 0, make([]byte, 1000))[:recordHeaderSize]
	fake[0] ^= 1
	fake[6] = 0x0f // a payload of nearly 1 MiB
	for range 200_000 {
		b = append(b, fake...)
	}
	put(t, fs, name, b)
	l, got := open(t, Options{FS: fs})
	if len(got) != 0 || len(l.Damage()) == 0 {
		t.Fatalf("%d entries, damage %v", len(got), l.Damage())
	}
	mustClose(t, l)
}

// TestMissingEntries writes segments by hand that lack an entry though every
// byte of them is good.
func TestMissingEntries(t *testing.T) {
	series := entrytest.Series(1)
	record := func(dst []byte, mark byte, sequence uint64) []byte {
		e := entrytest.Note(series, 1, 10, fmt.Sprint(sequence))
		var c entry.Encoder
		if err := c.Encode(e); err != nil {
			t.Fatal(err)
		}
		var d entry.Definitions
		var b []byte
		d.Append(e, c.IDs, func(block []byte, packed bool) { b = appendDefinitions(b, 7, sequence, mark, block, packed) })
		b = appendEntryRecords(b, 7, sequence, typeEntry, mark, c.Payload)
		return append(dst, b...)
	}
	header := segmentHeader{epoch: 1, number: 7, first: 1}.append(nil)
	for _, tc := range []struct {
		name    string
		marks   byte // of the record behind the gap
		end     bool // the end record tells of one more entry
		damaged int
		torn    bool
	}{
		{"synced", flagSynced, false, 1, false},
		{"last write", 0, false, 1, true},
		{"before the end", flagSynced, true, 2, false},
	} {
		b := record(header, flagSynced, 1)
		b = record(b, tc.marks, 3)
		if tc.end {
			b = appendRecord(b, 7, 4, typeEnd, flagSynced, 0, nil)
		}
		fs := vfstest.New()
		put(t, fs, "w/000000000007.wal", b)
		l, got := open(t, Options{FS: fs})
		ds := l.Damage()
		if len(got) != 2 || got[3] == "" || len(ds) != tc.damaged || ds[0].Torn != tc.torn || !strings.Contains(ds[0].Reason, "entries 2 to 2") {
			t.Errorf("%s: %d entries, damage %+v", tc.name, len(got), ds)
		}
		mustClose(t, l)
	}
}

// TestReplayTwice replays a segment that ends at the end of its file and holds
// a record whose sequence is just out of reach there: what a replay leaves
// behind must be read by the next one as it was read by the first.
func TestReplayTwice(t *testing.T) {
	record := func(sequence uint64) []byte {
		e := &entry.Entry{Deletes: []entry.Delete{{Database: 1}}}
		var c entry.Encoder
		if err := c.Encode(e); err != nil {
			t.Fatal(err)
		}
		return appendEntryRecords(nil, 2, sequence, typeEntry, 0, c.Payload)
	}
	n := len(record(1))
	size := segmentHeaderSize + 3*n + 1
	for over := 1; over < 3*recordHeaderSize; over++ {
		b := segmentHeader{epoch: 1, number: 2, first: 1}.append(nil)
		b = append(b, record(1)...)
		b = append(b, 0xff) // damage, to look for the next record
		b = append(b, record(uint64(1+size+over))...)
		b = append(b, record(2)...)
		fs := vfstest.New()
		put(t, fs, "w/000000000002.wal", b)
		l, got := open(t, Options{FS: fs, SegmentBytes: 4 << 10})
		if len(got) != 2 {
			t.Fatalf("%d over: %d entries", over, len(got))
		}
		e := entrytest.Note(entrytest.Series(1), 1, 10, "next")
		got[3] = mustAppend(t, l, e)
		mustClose(t, l)
		l, again := open(t, Options{FS: fs, SegmentBytes: 4 << 10})
		mustClose(t, l)
		if !maps.Equal(got, again) {
			t.Fatalf("%d over: entries %v, then %v", over, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(again)))
		}
	}
}
