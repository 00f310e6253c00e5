package wal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry/entrytest"
)

// known is the owner's memory of a log.
type known struct{ Known }

func (k *known) segment(number, sequence uint64) {
	k.Segment, k.Sequence, k.Open = number, sequence, true
}

// TestKnownEnd removes, replaces or empties the end of a log whose owner
// remembers it: the entries that are missing are told and stay told, unless
// published files have them.
func TestKnownEnd(t *testing.T) {
	var k known
	fs := vfstest.New()
	opt := Options{FS: fs, SegmentBytes: 4 << 10, OnSegment: k.segment, Lineage: identity.Lineage{1}}
	l, _ := open(t, opt)
	series := entrytest.Series(1)
	want := map[uint64]string{}
	for i := range 20 {
		e := entrytest.Note(series, 20, 700, fmt.Sprint(i))
		w := mustAppend(t, l, e)
		want[e.Sequence] = w
	}
	crashed := k.Known
	k.Sequence, k.Open = l.Sequence(), false
	mustClose(t, l)
	segs := segments(fs)
	if len(segs) < 3 {
		t.Fatalf("segments %v", segs)
	}
	newest, before := segs[len(segs)-1], segs[len(segs)-2]
	foreign := vfstest.New()
	other, _ := open(t, Options{FS: foreign, SegmentBytes: 4 << 10, Lineage: identity.Lineage{2}})
	mustAppend(t, other, entrytest.Note(entrytest.Series(1), 1, 10, "foreign"))
	mustClose(t, other)

	cases := map[string]struct {
		known Known
		harm  func(c *vfstest.FS) error
		lost  bool
		text  string
	}{
		"nothing":           {k.Known, func(*vfstest.FS) error { return nil }, false, ""},
		"removed":           {k.Known, func(c *vfstest.FS) error { return c.Remove(newest) }, true, "is missing, the last of the log"},
		"removed, crashed":  {crashed, func(c *vfstest.FS) error { return c.Remove(newest) }, true, "is missing, the last of the log"},
		"all removed":       {k.Known, func(c *vfstest.FS) error { return c.RemoveAll("w") }, true, "is missing, the last of the log"},
		"replaced by older": {k.Known, func(c *vfstest.FS) error { return c.Put(newest, fs.Content(before)) }, true, "is missing, the last of the log"},
		"replaced by another log's": {crashed, func(c *vfstest.FS) error {
			return c.Put(newest, foreign.Content(segments(foreign)[0]))
		}, true, "is missing, the last of the log"},
		"tail of zeros": {k.Known, func(c *vfstest.FS) error {
			b := c.Content(newest)
			clear(b[segmentHeaderSize:])
			return c.Put(newest, b)
		}, true, "are missing at the end of the log"},
		"cut": {crashed, func(c *vfstest.FS) error { return c.Truncate(newest, segmentHeaderSize+10) }, true, "segment is cut from"},
	}
	for what, x := range cases {
		for _, covered := range []uint64{0, uint64(len(want))} {
			c := fs.Clone()
			if err := x.harm(c); err != nil {
				t.Fatal(err)
			}
			opt := opt
			opt.FS, opt.OnSegment, opt.Known = c, nil, x.known
			opt.Known.Covered = covered
			l, got := open(t, opt)
			checkSubset(t, what, got, want)
			ds := slices.DeleteFunc(slices.Clone(l.Damage()), func(d Damage) bool { return d.First == 0 }) // what was found instead
			if x.lost != (len(ds) != 0) || x.lost && (!strings.Contains(ds[len(ds)-1].Reason, x.text) || ds[len(ds)-1].Torn) {
				t.Errorf("%s: damage %+v, want %q", what, ds, x.text)
			}
			if complete := maps.Equal(got, want); complete == x.lost {
				t.Errorf("%s: %d of %d entries", what, len(got), len(want))
			}
			// After a crash nobody knows what else was in the segment.
			harmless := !x.lost || covered != 0 && !x.known.Open
			lost, err := Lost(c, "w")
			if err != nil || (len(lost) == 0) != harmless {
				t.Errorf("%s, covered to %d: losses %v, %v", what, covered, lost, err)
			}
			mustAdvance(t, l, uint64(len(want)))
			mustAppend(t, l, entrytest.Note(entrytest.Series(1), 1, 10, "next"))
			mustClose(t, l)
			opt.Known.Told = true
			l, _ = open(t, opt)
			if again, err := Lost(c, "w"); err != nil || !slices.Equal(again, lost) || l.LostEnd() {
				t.Errorf("%s: losses %v after another start, were %v, %v", what, again, lost, err)
			}
			mustClose(t, l)
		}
	}
}

func mustAdvance(t *testing.T, l *Log, sequence uint64) {
	t.Helper()
	if err := l.Advance(sequence); err != nil {
		t.Fatal(err)
	}
}

// TestCoveredDamage flips a bit in every record of a log, and in a header, all of
// whose entries are in files: it is told, and no loss. One entry above what is
// in files makes it one.
func TestCoveredDamage(t *testing.T) {
	fs, want := sample(t)
	last := uint64(len(want))
	segs := segments(fs)
	for _, name := range segs[:len(segs)-1] {
		for _, at := range []int64{20, segmentHeaderSize + 25, int64(recordsEnd(fs.Content(name))) - 3} {
			c := fs.Clone()
			if err := c.Flip(name, at, 4); err != nil {
				t.Fatal(err)
			}
			l, got := open(t, Options{FS: c, Known: Known{Covered: last}})
			ds := l.Damage()
			if len(ds) == 0 || slices.ContainsFunc(ds, func(d Damage) bool { return !d.Harmless || d.Quarantine == "" }) {
				t.Errorf("%s at %d: %+v", name, at, ds)
			}
			if lost, err := Lost(c, "w"); err != nil || len(lost) != 0 {
				t.Errorf("%s at %d: losses %v, %v", name, at, lost, err)
			}
			mustClose(t, l)
			// The same where an entry that is lost is in no file, and a header
			// that lost none.
			missing := uint64(0)
			for seq := range want {
				if _, ok := got[seq]; !ok && seq > missing {
					missing = seq
				}
			}
			c = fs.Clone()
			if err := c.Flip(name, at, 4); err != nil {
				t.Fatal(err)
			}
			l, _ = open(t, Options{FS: c, Known: Known{Covered: max(missing, 1) - 1}})
			if lost, err := Lost(c, "w"); err != nil || (len(lost) != 0) != (missing != 0) {
				t.Errorf("%s at %d, entry %d lost: losses %v, %v, damage %+v", name, at, missing, lost, err, l.Damage())
			}
			mustClose(t, l)
		}
	}
}

// TestForeignSegment sets a segment of another data directory aside, whole.
func TestForeignSegment(t *testing.T) {
	fs, _ := sample(t)
	segs := segments(fs)
	text := fs.Content(segs[0])
	l, got := open(t, Options{FS: fs, Lineage: identity.Lineage{9}})
	defer mustClose(t, l)
	if len(got) != 0 || len(l.Damage()) != len(segs) || !strings.Contains(l.Damage()[0].Reason, "belongs to data directory 00") {
		t.Errorf("%d entries, damage %+v", len(got), l.Damage())
	}
	if have := fs.Content(l.Damage()[0].Quarantine); string(have) != string(text) {
		t.Errorf("%d bytes in quarantine, want %d", len(have), len(text))
	}
}

// TestReadHead tells what a log has without reading its entries.
func TestReadHead(t *testing.T) {
	fs := vfstest.New()
	if h, err := ReadHead(fs, "w"); err != nil || h.After != 1<<64-1 || len(h.Lineages) != 0 {
		t.Errorf("no log: %+v, %v", h, err)
	}
	fs, want := sample(t)
	if h, err := ReadHead(fs, "w"); err != nil || h.After != 0 || len(h.Lineages) != 1 {
		t.Errorf("a whole log: %+v, %v", h, err)
	}
	l, _ := open(t, Options{FS: fs, SegmentBytes: 4 << 10})
	if err := l.Trim(uint64(len(want)) / 2); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	h, err := ReadHead(fs, "w")
	if err != nil || h.After == 0 || h.After > uint64(len(want))/2 {
		t.Errorf("a trimmed log: %+v, %v", h, err)
	}
	if err := fs.Flip(segments(fs)[0], 10, 1); err != nil {
		t.Fatal(err)
	}
	if h, err := ReadHead(fs, "w"); err != nil || h.After != 1<<64-1 {
		t.Errorf("a damaged header: %+v, %v", h, err)
	}
}
