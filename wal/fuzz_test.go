package wal

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// resum makes every checksum right, so that the fuzzer gets past them.
func resum(b []byte, number uint64) []byte {
	if len(b) < segmentHeaderSize {
		return b
	}
	binary.LittleEndian.PutUint32(b[44:], binio.Checksum(b[:44]))
	for off := segmentHeaderSize; off+recordHeaderSize <= len(b); {
		h, ok := parseRecordHeader(b[off:])
		end := off + recordHeaderSize + h.length
		if !ok || end > len(b) {
			break
		}
		binary.LittleEndian.PutUint32(b[off:], recordChecksum(number, b[off:end]))
		off = end
	}
	return b
}

// FuzzSegment opens a log whose only segment is the input: no panic, no entry
// that a checksum does not vouch for, and the log goes on.
func FuzzSegment(f *testing.F) {
	golden, _ := goldenSegment(f)
	f.Add(golden, false)
	f.Add(golden[:len(golden)-5], true)
	f.Add(append(append([]byte{}, golden[:100]...), golden[60:]...), true)
	fs, _ := sample(f)
	for _, name := range segments(fs) {
		b := fs.Content(name)
		f.Add(b[:recordsEnd(b)], true)
	}
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		fs := vfstest.New()
		if mend {
			data = resum(slices.Clone(data), 2)
		}
		put(t, fs, "w/000000000002.wal", data)
		l, err := Open("w", Options{FS: fs, SegmentBytes: 4 << 10})
		if errors.Is(err, binio.ErrVersion) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := l.Replay(func(e *entry.Entry) error { n++; _ = entrytest.Text(e); return nil }); err != nil {
			t.Fatal(err)
		}
		// Sequences near the end of the range are no place to go on from.
		if l.Sequence() < 1<<60 {
			mustAppend(t, l, entrytest.Note(entrytest.Series(1), 1, 10, "next"))
			mustClose(t, l)
			l, got := open(t, Options{FS: fs, SegmentBytes: 4 << 10})
			if len(got) != n+1 {
				t.Fatalf("%d entries, then %d", n, len(got))
			}
			mustClose(t, l)
			return
		}
		mustClose(t, l)
	})
}
