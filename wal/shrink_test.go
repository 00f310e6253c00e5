package wal

import (
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
)

// TestShrink fills segments, shrinks, and wants a small log that goes on and
// replays.
func TestShrink(t *testing.T) {
	fs := vfstest.New()
	if err := fs.MkdirAll("/wal"); err != nil {
		t.Fatal(err)
	}
	open := func() *Log {
		t.Helper()
		l, err := Open("/wal", Options{FS: fs, SegmentBytes: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	if err := l.Replay(func(*entry.Entry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	appendSome := func(n int) {
		t.Helper()
		for range n {
			if err := l.Append(&entry.Entry{Deletes: []entry.Delete{{Shard: 1, Series: make([]byte, 200<<10)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	appendSome(150)
	before := l.Stats().DiskBytes
	last := l.Sequence()
	if err := l.Shrink(last - 1); err != nil {
		t.Fatal(err)
	}
	appendSome(3)
	if after := l.Stats().DiskBytes; after >= before {
		t.Errorf("%d bytes on disk after Shrink with an entry still needed, %d before", after, before)
	}
	if err := l.Shrink(l.Sequence()); err != nil {
		t.Fatal(err)
	}
	if after := l.Stats().DiskBytes; after > 4<<20 {
		t.Errorf("%d bytes on disk after Shrink, %d before", after, before)
	}
	appendSome(2)
	want := l.Sequence()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open()
	entries := 0
	if err := l.Replay(func(*entry.Entry) error { entries++; return nil }); err != nil {
		t.Fatal(err)
	}
	if len(l.Damage()) != 0 || entries != 2 || l.Sequence() != want {
		t.Errorf("replay: %d entries to sequence %d, damage %v; want 2 to %d", entries, l.Sequence(), l.Damage(), want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
