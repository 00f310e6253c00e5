package wal

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs/vfstest"
)

// decoderWith returns a decoder that knows some series.
func decoderWith() *decoder {
	c := newDecoder()
	for db := range uint32(4) {
		for id := range uint32(20) {
			c.dbs[db] = &seriesTable{}
			c.dbs[db].put(id+1, definedSeries{testSeries(id + 1), 0})
		}
	}
	return c
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// FuzzDecode feeds payloads to the entry decoder: no panic, only ErrCorrupt, no
// allocation out of proportion, and what decodes encodes to the same entry.
func FuzzDecode(f *testing.F) {
	w := newWorld(rand.New(rand.NewPCG(1, 2)))
	var c encoder
	for range 20 {
		if err := c.encode(w.entry(5)); err != nil {
			f.Fatal(err)
		}
		f.Add(c.payload)
	}
	for _, e := range goldenEntries() {
		if err := c.encode(e); err != nil {
			f.Fatal(err)
		}
		f.Add(c.payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d := decoderWith()
		var e *Entry
		var err error
		if n := allocated(func() { e, err = d.decode(1, payload) }); n > uint64(200*len(payload)+1<<16) {
			t.Fatalf("%d bytes allocated for %d", n, len(payload))
		}
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		want := text(e)
		var c encoder
		if err := c.encode(e); err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		again, err := decoderWith().decode(1, c.payload)
		if err != nil {
			t.Fatalf("encoded, but does not decode: %v", err)
		}
		if got := text(again); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// FuzzDefine feeds the reader of series definitions.
func FuzzDefine(f *testing.F) {
	var d definitions
	e := note(testSeries(3), 1, 10, "")
	f.Add(byte(0), d.append(nil, 1, 1, 0, e, []uint32{3})[recordHeaderSize:])
	w := newWorld(rand.New(rand.NewPCG(1, 2)))
	var c encoder
	for range 5 {
		e := w.entry(20)
		if err := c.encode(e); err != nil {
			f.Fatal(err)
		}
		if rec := d.append(nil, 1, 1, 0, e, c.ids); len(rec) > recordHeaderSize {
			f.Add(rec[17], rec[recordHeaderSize:])
		}
	}
	f.Fuzz(func(t *testing.T, flags byte, payload []byte) {
		var err error
		// A snappy block says its size in front; maxDefinitions bounds it.
		if n := allocated(func() { err = newDecoder().define(flags, payload) }); n > uint64(2000*len(payload)+2*maxDefinitions) {
			t.Fatalf("%d bytes allocated for %d", n, len(payload))
		}
		if err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

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
		if errors.Is(err, errVersion) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := l.Replay(func(e *Entry) error { n++; _ = text(e); return nil }); err != nil {
			t.Fatal(err)
		}
		// Sequences near the end of the range are no place to go on from.
		if l.Sequence() < 1<<60 {
			mustAppend(t, l, note(testSeries(1), 1, 10, "next"))
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
