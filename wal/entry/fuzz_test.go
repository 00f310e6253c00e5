package entry_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// decoderWith returns a decoder that knows some series.
func decoderWith() *entry.Decoder {
	return entry.NewDecoder(func(database, id uint32) (string, bool) {
		return entrytest.Series(id).Key(), database < 4 && id <= 20
	})
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
	w := entrytest.NewWorld(rand.New(rand.NewPCG(1, 2)))
	var c entry.Encoder
	for range 20 {
		if err := c.Encode(w.Entry(5)); err != nil {
			f.Fatal(err)
		}
		f.Add(c.Payload)
	}
	for _, e := range entrytest.Golden() {
		if err := c.Encode(e); err != nil {
			f.Fatal(err)
		}
		if len(e.Command) == 0 && e.Move == nil {
			f.Add(c.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d := decoderWith()
		var e *entry.Entry
		var err error
		if n := allocated(func() { e, err = d.Decode(entry.KindPoints, 1, payload) }); n > uint64(200*len(payload)+1<<16) {
			t.Fatalf("%d bytes allocated for %d", n, len(payload))
		}
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		want := entrytest.Text(e)
		var c entry.Encoder
		if err := c.Encode(e); err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		again, err := decoderWith().Decode(entry.KindPoints, 1, c.Payload)
		if err != nil {
			t.Fatalf("encoded, but does not decode: %v", err)
		}
		if got := entrytest.Text(again); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// FuzzMove feeds the reader of moves, as FuzzDecode does.
func FuzzMove(f *testing.F) {
	w := entrytest.NewWorld(rand.New(rand.NewPCG(1, 2)))
	var c entry.Encoder
	for range 100 {
		if e := w.Entry(5); e.Move != nil {
			if err := c.Encode(e); err != nil {
				f.Fatal(err)
			}
			f.Add(slices.Clone(c.Payload))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d := entry.NewDecoder(nil)
		var e *entry.Entry
		var err error
		if n := allocated(func() { e, err = d.Decode(entry.KindMove, 1, payload) }); n > uint64(200*len(payload)+1<<16) {
			t.Fatalf("%d bytes allocated for %d", n, len(payload))
		}
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		want := entrytest.Text(e)
		if err := c.Encode(e); err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		again, err := entry.NewDecoder(nil).Decode(entry.KindMove, 1, c.Payload)
		if err != nil || entrytest.Text(again) != want {
			t.Fatalf("got %v, %v, want %s", again, err, want)
		}
	})
}

// FuzzDefine feeds the reader of series definitions.
func FuzzDefine(f *testing.F) {
	var d entry.Definitions
	add := func(block []byte, packed bool) { f.Add(packed, slices.Clone(block)) }
	d.Append(entrytest.Note(entrytest.Series(3), 1, 10, ""), []uint32{3}, add)
	w := entrytest.NewWorld(rand.New(rand.NewPCG(1, 2)))
	var c entry.Encoder
	for range 5 {
		e := w.Entry(20)
		if err := c.Encode(e); err != nil {
			f.Fatal(err)
		}
		d.Append(e, c.IDs, add)
	}
	f.Fuzz(func(t *testing.T, packed bool, payload []byte) {
		var err error
		// A snappy block says its size in front; 256 KiB bound it.
		if n := allocated(func() { err = entry.NewDecoder(nil).Define(payload, packed) }); n > uint64(2000*len(payload)+512<<10) {
			t.Fatalf("%d bytes allocated for %d", n, len(payload))
		}
		if err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
