package shard

import (
	"context"
	"errors"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/shard/manifest"
)

// TestIndexHealsWhileRunning flips a byte of every place of a TSI file that opening
// does not read. A query that meets it fails with the file's name. Compact then
// rebuilds the index: the query has all values again, also after a start, and the
// damaged file is in quarantine.
func TestIndexHealsWhileRunning(t *testing.T) {
	b := fixed(t)
	for series := range b.series {
		b.put(series, 10, 0, 1)
	}
	b.flush()
	b.put(0, 10, 100, 1) // a row that only the cache has
	name := testShard + b.s.mu.manifest.TSI[0].Name
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	clean, healed := b.fs, 0
	values := func() ([]string, error) {
		v := b.s.View()
		defer v.Release()
		return v.TagValues("m", "h", nil)
	}
	for at := range int64(len(clean.Content(name))) {
		b.fs = clean.Clone()
		if err := b.fs.Flip(name, at, 1); err != nil {
			t.Fatal(err)
		}
		b.open()
		if _, err := values(); err != nil {
			var c *binio.CorruptError
			if !errors.As(err, &c) || c.Path != name || b.s.IndexDamage() == nil {
				t.Fatalf("flip at %d: %v, damage noticed: %v", at, err, b.s.IndexDamage())
			}
			if did, err := b.s.Compact(context.Background(), false); err != nil || !did {
				t.Fatalf("flip at %d: healed %v, %v", at, did, err)
			}
			healed++
			if q := b.s.Quarantine().List(); len(q) != 1 || b.s.IndexDamage() != nil || b.fs.Content(name) != nil {
				t.Fatalf("flip at %d: quarantine %v, still damaged: %v", at, q, b.s.IndexDamage())
			}
			if m, err := manifest.Read(b.fs, "/db/shard-1"); err != nil || len(m.TSI) != 1 || testShard+m.TSI[0].Name == name {
				t.Fatalf("flip at %d: manifest %+v, %v", at, m, err)
			}
		}
		for range 2 {
			if got, err := values(); err != nil || !slices.Equal(got, []string{"0", "1", "2", "3"}) {
				t.Fatalf("flip at %d: %v, %v", at, got, err)
			}
			if err := b.s.Close(); err != nil {
				t.Fatal(err)
			}
			b.open()
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if healed < 10 {
		t.Errorf("%d flips were healed while the shard ran", healed)
	}
}
