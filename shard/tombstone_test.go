package shard

import (
	"testing"

	"tsdbd/model"
	"tsdbd/shard/manifest"
)

// TestTombstoneOrder writes rows, deletes some, and writes some again, with every
// kind of maintenance after each step: the answers never depend on it.
func TestTombstoneOrder(t *testing.T) {
	flush := func(b *bench) {
		if b.pending != nil { // what was cut goes first
			if err := b.s.Flush(b.t.Context(), b.pending); err != nil {
				b.t.Fatal(err)
			}
			b.pending = nil
		}
		b.flush()
	}
	kinds := []struct {
		name string
		do   func(b *bench)
	}{
		{"nothing", func(*bench) {}},
		{"freeze", func(b *bench) {
			if b.pending == nil {
				b.pending = b.s.Freeze(b.sequence)
			}
		}},
		{"flush", flush},
		{"merge", func(b *bench) {
			flush(b)
			b.compact(true)
		}},
		{"start", func(b *bench) {
			flush(b)
			if err := b.s.Close(); err != nil {
				b.t.Fatal(err)
			}
			b.open()
		}},
	}
	steps := []func(b *bench){
		func(b *bench) {
			b.put(0, 10, 0, 1)
			b.put(1, 10, 0, 1)
		},
		func(b *bench) { b.hide(0, model.TimeRange{Min: 3, Max: 7}) },
		func(b *bench) {
			b.put(0, 2, 5, 1)        // hidden rows come back
			b.put(0, 1, 100, 1)      // and one behind all others
			b.hide(1, model.AllTime) // a series goes
		},
	}
	for k := range len(kinds) * len(kinds) * len(kinds) {
		after := []int{k % len(kinds), k / len(kinds) % len(kinds), k / len(kinds) / len(kinds)}
		t.Run(kinds[after[0]].name+" "+kinds[after[1]].name+" "+kinds[after[2]].name, func(t *testing.T) {
			b := fixed(t)
			for i, step := range steps {
				step(b)
				b.check()
				kinds[after[i]].do(b)
				b.check()
			}
			// At the end one merge applies all tombstones.
			flush(b)
			b.compact(true)
			b.check()
			if left := len(b.s.mu.manifest.Tombstones); left != 0 {
				t.Errorf("%d tombstones are left", left)
			}
			if err := b.s.Close(); err != nil {
				t.Fatal(err)
			}
			b.open()
			b.check()
			if err := b.s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestTombstonesOfFile has tombstones that a file must be read with, and those that do not
// concern it: its rows are at 0 to 9, of entry 5, with tombstones up to 7 applied.
func TestTombstonesOfFile(t *testing.T) {
	b := fixed(t)
	b.put(0, 10, 0, 1)
	b.flush()
	f := &file{File: manifest.File{MaxSequence: 5, TombstonesSequence: 7}, reader: b.s.mu.set.files[0].reader}
	for _, c := range []struct {
		what       string
		sequence   uint64
		times      model.TimeRange
		tombstones int
	}{
		{"a newer delete", 8, model.TimeRange{Min: 3, Max: 4}, 1},
		{"one of the last row", 8, model.TimeRange{Min: 9, Max: 99}, 1},
		{"one behind the last row", 8, model.TimeRange{Min: 10, Max: 99}, 0},
		{"one before the first row", 8, model.TimeRange{Min: -9, Max: -1}, 0},
		{"one that a merge has applied", 7, model.AllTime, 0},
		{"one older than a row", 4, model.AllTime, 0},
	} {
		set := newFileSet([]*file{f}, manifest.Events{Tombstones: []*manifest.Tombstone{{Sequence: c.sequence, Range: c.times}}})
		if got := set.tombstones()[0]; len(got) != c.tombstones {
			t.Errorf("%s: %d tombstones, want %d", c.what, len(got), c.tombstones)
		}
		set.release()
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
}
