package shard

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
)

// TestManifestCopies damages either copy of a manifest with tombstones in every
// way: no deleted row may come back, and both copies must be whole again.
func TestManifestCopies(t *testing.T) {
	b := fixed(t)
	for series := range b.series {
		b.put(series, 2000, 0, 1)
	}
	b.flush()
	b.hide(0, model.TimeRange{Min: 100, Max: 1500})
	b.put(1, 10, 5000, 1)
	b.flush()
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	clean := b.fs
	for _, name := range manifest.Names {
		path := "/db/shard-1/" + name
		harms := map[string]func(fs *vfstest.FS) error{
			"removed": func(fs *vfstest.FS) error { return fs.Remove(path) },
			"emptied": func(fs *vfstest.FS) error { return fs.Truncate(path, 0) },
			"another shard's": func(fs *vfstest.FS) error {
				text, err := manifest.New(7, identity.Lineage{1}).Encode()
				if err != nil {
					return err
				}
				return fs.Put(path, text)
			},
		}
		r := rand.New(rand.NewPCG(4, 4))
		size := int64(len(clean.Content(path)))
		for range 20 {
			at, mask := r.Int64N(size), byte(1)<<r.IntN(8)
			harms["flipped"] = func(fs *vfstest.FS) error { return fs.Flip(path, at, mask) }
			harms["cut"] = func(fs *vfstest.FS) error { return fs.Truncate(path, at) }
			for what, harm := range harms {
				b.fs = clean.Clone()
				if err := harm(b.fs); err != nil {
					t.Fatal(err)
				}
				b.open()
				b.check()
				q := b.s.Quarantine().List()
				if what == "removed" && len(q) != 0 || what != "removed" && (len(q) != 1 || q[0].Loss != repair.LossNone || !strings.Contains(q[0].Path, name)) {
					t.Errorf("%s %s at %d: quarantine %v", name, what, at, q)
				}
				if err := b.s.Close(); err != nil {
					t.Fatal(err)
				}
				first, second := b.fs.Content("/db/shard-1/"+manifest.Names[0]), b.fs.Content("/db/shard-1/"+manifest.Names[1])
				if first == nil || !bytes.Equal(first, second) {
					t.Errorf("%s %s at %d: the copies are not the same again", name, what, at)
				}
			}
		}
	}
	// Both: the rows are there, and what that means for deletes is told.
	b.fs = clean.Clone()
	for _, name := range manifest.Names {
		if err := b.fs.Flip("/db/shard-1/"+name, 20, 1); err != nil {
			t.Fatal(err)
		}
	}
	b.open()
	if q := b.s.Quarantine().List(); len(q) != 2 || q[0].Loss != repair.LossDeletes || q[1].Loss != repair.LossDeletes {
		t.Errorf("quarantine %v", q)
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	if q := b.s.Quarantine().List(); len(q) != 2 || q[0].Loss != repair.LossDeletes || q[1].Loss != repair.LossDeletes {
		t.Errorf("quarantine after another start %v", q)
	}
}
