package entry_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestRecords sends records to readers: one that gets them all knows each series
// after its first record, one that gets a single record needs nothing else.
func TestRecords(t *testing.T) {
	seed := testseed.Of(t)
	w := entrytest.NewWorld(rand.New(rand.NewPCG(seed, 1)))
	var c entry.Encoder
	var known entry.Definitions
	all := entry.NewDecoder(nil)
	for n := range uint64(300) {
		e := w.Entry(20)
		e.Sequence = n + 1
		want := entrytest.Text(e)
		next, err := c.AppendRecord([]byte("x"), e, &known)
		if err != nil {
			t.Fatal(err)
		}
		got, err := all.Record(next[1:])
		if err != nil || got.Sequence != e.Sequence || entrytest.Text(got) != want {
			t.Fatalf("entry %d: %v, %v, want %s", e.Sequence, got, err, want)
		}
		alone, err := c.AppendRecord(nil, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err = entry.NewDecoder(nil).Record(alone)
		if err != nil || got.Sequence != e.Sequence || entrytest.Text(got) != want {
			t.Fatalf("entry %d alone: %v, %v, want %s", e.Sequence, got, err, want)
		}
		at := w.Rand().IntN(len(alone))
		alone[at] ^= 1 << w.Rand().IntN(8)
		if _, err := entry.NewDecoder(nil).Record(alone); !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("entry %d with a flip at %d: %v", e.Sequence, at, err)
		}
	}
}

// TestRecordResolves leaves definitions out and asks the reader's owner.
func TestRecordResolves(t *testing.T) {
	e := entrytest.Note(entrytest.Series(7), 1, 10, "x")
	var c entry.Encoder
	var known entry.Definitions
	if _, err := c.AppendRecord(nil, e, &known); err != nil {
		t.Fatal(err)
	}
	b, err := c.AppendRecord(nil, e, &known)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.NewDecoder(nil).Record(b); !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("an unknown series: %v", err)
	}
	d := entry.NewDecoder(func(database, id uint32) (string, bool) {
		return entrytest.Series(id).Key(), database == 1 && id == 7
	})
	if got, err := d.Record(b); err != nil || entrytest.Text(got) != entrytest.Text(e) {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestReset makes a reader forget, again and again: it takes memory only for what came
// since, and asks for the rest.
func TestReset(t *testing.T) {
	seed := testseed.Of(t)
	w := entrytest.NewWorld(rand.New(rand.NewPCG(seed, 2)))
	keys := map[[2]uint32]string{}
	d := entry.NewDecoder(func(database, id uint32) (string, bool) {
		key, ok := keys[[2]uint32{database, id}]
		return key, ok
	})
	var c entry.Encoder
	var known entry.Definitions
	resets := 0
	for range 300 {
		e := w.Entry(20)
		b, err := c.AppendRecord(nil, e, &known)
		if err != nil {
			t.Fatal(err)
		}
		if d.Bytes() > 10_000 {
			d.Reset()
			resets++
			if d.Bytes() != 0 {
				t.Fatalf("%d bytes after Reset", d.Bytes())
			}
		}
		want := entrytest.Text(e)
		got, err := d.Record(b)
		if err != nil || entrytest.Text(got) != want {
			t.Fatalf("%v, %v, want %s", got, err, want)
		}
		for i := range got.Writes {
			for _, row := range got.Writes[i].Rows {
				keys[[2]uint32{got.Writes[i].Database, uint32(row.Series.ID())}] = row.Series.Key()
			}
		}
	}
	if resets < 5 {
		t.Fatalf("%d resets", resets)
	}
}

// TestRecordGolden holds the format still.
func TestRecordGolden(t *testing.T) {
	const name = "testdata/records3.golden"
	var c entry.Encoder
	var all []byte
	for i, e := range entrytest.Golden() {
		e.Sequence = uint64(i + 1)
		b, err := c.AppendRecord(nil, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, hex.Dump(b)...)
		all = append(all, '\n')
	}
	if _, err := os.Stat(name); *update && err != nil {
		if err := os.WriteFile(name, all, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(all, want) {
		t.Errorf("records changed:\n%s\nwant\n%s", all, want)
	}
}

// TestRefusedEntries are entries that have no bytes.
func TestRefusedEntries(t *testing.T) {
	var c entry.Encoder
	e := entrytest.Note(entrytest.Series(1), 1, 10, "x")
	e.Command = []byte("x")
	if err := c.Encode(e); err == nil {
		t.Error("a command beside points was encoded")
	}
	e.Command, e.Move = nil, &entry.Move{}
	if err := c.Encode(e); err == nil {
		t.Error("a move beside points was encoded")
	}
	e.Move, e.Exemplars = nil, &entry.Exemplars{}
	if err := c.Encode(e); err == nil {
		t.Error("exemplars beside points were encoded")
	}
	if _, err := entry.NewDecoder(nil).Decode(entry.KindExemplars, 1, nil); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("exemplars without content: %v", err)
	}
	if _, err := entry.NewDecoder(nil).Decode(entry.KindMove, 1, nil); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a move without content: %v", err)
	}
	if _, err := entry.NewDecoder(nil).Decode(entry.KindCommand, 1, nil); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a command without content: %v", err)
	}
}

// FuzzRecord feeds the reader of records, checksums made right.
func FuzzRecord(f *testing.F) {
	var c entry.Encoder
	for i, e := range entrytest.Golden() {
		e.Sequence = uint64(i + 1)
		b, err := c.AppendRecord(nil, e, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 8 {
			return
		}
		b = bytes.Clone(b)
		b[4] = 3 // the version
		sum := binio.Checksum(b[4:])
		b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		e, err := entry.NewDecoder(nil).Record(b)
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		want := entrytest.Text(e)
		again, err := c.AppendRecord(nil, e, nil)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		if e, err = entry.NewDecoder(nil).Record(again); err != nil || entrytest.Text(e) != want {
			t.Fatalf("got %v, %v, want %s", e, err, want)
		}
	})
}
