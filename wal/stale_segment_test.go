package wal

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// TestStaleSegment fails a rotation when the next segment has its name, and its
// removal as well, so that an empty segment stays behind while the old one goes
// on. No start may take what the log holds for damaged, also when the segment
// before the stale one has been trimmed.
func TestStaleSegment(t *testing.T) {
	for _, trimmed := range []bool{false, true} {
		t.Run(fmt.Sprintf("trimmed=%v", trimmed), func(t *testing.T) {
			fsys := vfstest.New()
			opt := Options{FS: fsys, SegmentBytes: minSegmentBytes}
			l, _ := open(t, opt)
			l.noBackoff = true
			s := entrytest.Series(1)
			want := map[uint64]string{}
			appendOne := func() {
				t.Helper()
				e := entrytest.Note(s, 1, 100, fmt.Sprintf("entry %d ", len(want)+1))
				body := mustAppend(t, l, e)
				want[e.Sequence] = body
			}
			for range 3 {
				appendOne()
			}
			renamed := ""
			fsys.SetHook(func(op vfstest.Op) error {
				switch {
				case op.Kind == "syncdir", op.Kind == "remove" && strings.HasSuffix(op.Path, segmentSuffix):
					renamed = op.Path
					return syscall.EIO
				}
				return nil
			})
			if err := l.Rotate(); err == nil || renamed == "" {
				t.Fatalf("rotation did not fail: %v", err)
			}
			fsys.SetHook(nil)
			for range 3 {
				appendOne()
			}
			if err := l.Rotate(); err != nil {
				t.Fatal(err)
			}
			if trimmed {
				if err := l.Trim(6); err != nil {
					t.Fatal(err)
				}
				clear(want)
			}
			e := entrytest.Note(s, 1, 100, "last")
			want[7] = mustAppend(t, l, e)
			mustClose(t, l)

			if _, d, err := Inspect(fsys, "w", func(*SegmentInfo, *entry.Entry) error { return nil }); err != nil || len(d) > 0 {
				t.Errorf("inspected: %v, %+v", err, d)
			}
			l, got := open(t, opt)
			defer l.Close()
			if d := l.Damage(); len(d) > 0 {
				t.Errorf("damage where there is none: %+v", d)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || l.Sequence() != 7 {
				t.Errorf("sequence %d, entries %v, want %v", l.Sequence(), got, want)
			}
		})
	}
}

// TestNumbersOutOfRange puts files with the highest numbers there are beside a
// log: numbers must not start from zero again, which would turn the order of
// segments around.
func TestNumbersOutOfRange(t *testing.T) {
	for _, suffix := range []string{segmentSuffix, spareSuffix} {
		fsys := vfstest.New()
		opt := Options{FS: fsys, SegmentBytes: minSegmentBytes}
		l, _ := open(t, opt)
		s := entrytest.Series(1)
		want := map[uint64]string{1: mustAppend(t, l, entrytest.Note(s, 1, 100, "first"))}
		mustClose(t, l)
		put(t, fsys, "w/18446744073709551615"+suffix, make([]byte, minSegmentBytes))
		for n := uint64(2); n < 5; n++ {
			l, got := open(t, opt)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: start %d: entries %v, want %v", suffix, n, got, want)
			}
			e := entrytest.Note(s, 1, 100, "more")
			want[n] = mustAppend(t, l, e)
			if e.Sequence != n {
				t.Fatalf("%s: sequence %d, want %d", suffix, e.Sequence, n)
			}
			mustClose(t, l)
		}
	}
	// And a header that says so.
	h := segmentHeader{epoch: 1, number: 1<<64 - 1, first: 1}
	if _, err := parseSegmentHeader("", h.append(nil)); err == nil {
		t.Error("a segment header with the highest number is taken")
	}
}
