package shard

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
)

const testShard = "/db/shard-1/"

// close flushes and closes the shard.
func (b *bench) close() {
	b.t.Helper()
	b.flush()
	if err := b.s.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// TestNewerManifestCounts puts an older manifest in place of either copy:
// the other one counts, and both are the same afterwards.
func TestNewerManifestCounts(t *testing.T) {
	b := fixed(t)
	b.put(0, 100, 0, 1)
	b.flush()
	old := b.fs.Content(testShard + manifest.Names[0])
	b.put(1, 100, 5000, 1)
	b.hide(0, model.TimeRange{Min: 10, Max: 20})
	b.close()
	clean := b.fs
	b.options.LogAfter = b.sequence
	for _, name := range manifest.Names {
		b.fs = clean.Clone()
		if err := b.fs.Put(testShard+name, old); err != nil {
			t.Fatal(err)
		}
		if m, err := manifest.Read(b.fs, "/db/shard-1"); err != nil || m.Flushed != b.sequence {
			t.Errorf("%s is old: read as flushed up to %d, not %d: %v", name, m.Flushed, b.sequence, err)
		}
		b.open()
		b.check()
		if q := b.s.Quarantine().List(); len(q) != 0 {
			t.Errorf("%s is old: quarantine %v", name, q)
		}
		if first, second := b.fs.Content(testShard+manifest.Names[0]), b.fs.Content(testShard+manifest.Names[1]); !bytes.Equal(first, second) || bytes.Equal(first, old) {
			t.Errorf("%s is old: the copies are not the same again", name)
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedSaveHasAnEdition lets a save fail between its two renames: the next
// one must win over the copy that the failed one has left.
func TestFailedSaveHasAnEdition(t *testing.T) {
	b := fixed(t)
	b.put(0, 100, 0, 1)
	b.flush()
	b.put(1, 100, 5000, 1)
	snap := b.s.Freeze(b.sequence)
	failed := errors.New("input/output error")
	b.fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "rename" && strings.HasSuffix(op.Path, manifest.Names[1]) {
			return failed
		}
		return nil
	})
	if err := b.s.Flush(t.Context(), snap); !errors.Is(err, failed) {
		t.Fatalf("flush: %v", err)
	}
	left := b.fs.Content(testShard + manifest.Names[0])
	b.fs.SetHook(nil)
	if err := b.s.Flush(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	b.close()
	if err := b.fs.Put(testShard+manifest.Names[0], left); err != nil {
		t.Fatal(err)
	}
	b.options.LogAfter = b.sequence
	b.open()
	b.check()
	if q := b.s.Quarantine().List(); len(q) != 0 {
		t.Errorf("quarantine %v", q)
	}
}

// TestStaleManifest puts both copies of an older manifest back after the log was
// trimmed: the newer file is set aside, and the loss is told.
func TestStaleManifest(t *testing.T) {
	b := fixed(t)
	b.put(0, 100, 0, 1)
	b.flush()
	old := b.fs.Content(testShard + manifest.Names[0])
	b.put(1, 100, 5000, 1)
	b.close()
	for _, name := range manifest.Names {
		if err := b.fs.Put(testShard+name, old); err != nil {
			t.Fatal(err)
		}
	}
	newer := b.fs.Content(testShard + manifest.TSMName(3))
	if newer == nil {
		t.Fatalf("no second file: %v", b.fs.Files())
	}
	clean := b.fs.Clone()
	b.options.LogAfter = b.sequence
	b.open()
	q := b.s.Quarantine().List()
	if len(q) != 1 || q[0].Loss != repair.LossPoints || !strings.Contains(q[0].Reason, "no manifest names") {
		t.Fatalf("quarantine %v", q)
	}
	if !bytes.Equal(b.fs.Content(q[0].Path), newer) {
		t.Error("the newer file is not in quarantine")
	}
	if v := b.s.View(); len(v.Losses()) != 1 {
		t.Errorf("losses %v", v.Losses())
	} else {
		v.Release()
	}
	// As long as the log has all that is in it, it is what a flush has left.
	b.fs, b.options.LogAfter = clean, b.sequence-1
	b.open()
	if q := b.s.Quarantine().List(); len(q) != 0 || b.fs.Content(testShard+manifest.TSMName(3)) != nil {
		t.Errorf("quarantine %v, files %v", q, b.fs.Files())
	}
}

// TestStrayOfIdleShard leaves the file of a flush that was cut off in a shard
// that had been idle for long, so that the log begins behind what the manifest
// has flushed: it is removed, not set aside.
func TestStrayOfIdleShard(t *testing.T) {
	b := fixed(t)
	b.put(0, 100, 0, 1)
	b.flush()
	b.sequence += 1000 // other shards' entries
	after := b.sequence
	b.put(1, 100, 5000, 1)
	before := b.fs.Clone()
	b.close()
	b.fs, before = before, b.fs
	if err := b.fs.Put(testShard+manifest.TSMName(3), before.Content(testShard+manifest.TSMName(3))); err != nil {
		t.Fatal(err)
	}
	if err := b.fs.Put(testShard+manifest.TSMName(5), []byte("not finished")); err != nil {
		t.Fatal(err)
	}
	b.options.LogAfter = after
	b.open()
	if q := b.s.Quarantine().List(); len(q) != 0 {
		t.Errorf("quarantine %v", q)
	}
	for _, number := range []uint64{3, 5} {
		if b.fs.Content(testShard+manifest.TSMName(number)) != nil {
			t.Errorf("%s is left", manifest.TSMName(number))
		}
	}
}

// TestMergeLeftOvers keeps the files that a merge has read, as a crash before
// their removal does: they are removed. When what the merge wrote is damaged
// they are set aside: they may be all that is left.
func TestMergeLeftOvers(t *testing.T) {
	b := fixed(t)
	for i := range 4 {
		b.put(i%2, 100, int64(1000*i), 1)
		b.flush()
	}
	before := b.fs.Clone()
	if b.compact(true) == 0 {
		t.Fatal("nothing merged")
	}
	b.close()
	left := 0
	for _, name := range before.Files() {
		if strings.HasSuffix(name, ".tsm") {
			if err := b.fs.Put(name, before.Content(name)); err != nil {
				t.Fatal(err)
			}
			left++
		}
	}
	clean := b.fs.Clone()
	b.options.LogAfter = b.sequence
	b.open()
	b.check()
	if q := b.s.Quarantine().List(); len(q) != 0 {
		t.Errorf("quarantine %v", q)
	}
	merged := b.s.mu.manifest.TSM[0].Name
	b.fs = clean
	if err := b.fs.Truncate(testShard+merged, 10); err != nil {
		t.Fatal(err)
	}
	b.open()
	if q := b.s.Quarantine().List(); len(q) != left+1 {
		t.Errorf("%d files in quarantine, want %d: %v", len(q), left+1, q)
	}
}

// TestFlushedShardGone opens a shard that is known to have had files, and has
// none: the loss is told, now and after the next start, until an operator takes
// the reason away. A shard that never had any is new.
func TestFlushedShardGone(t *testing.T) {
	for _, c := range []struct {
		what  string
		known manifest.Known
		left  []string
		loss  bool
	}{
		{"a new shard", manifest.Known{}, nil, false},
		{"no directory", manifest.Known{Edition: 7, Flushed: 70}, nil, true},
		{"an index alone", manifest.Known{Edition: 1}, []string{"00000002.tsi"}, true},
	} {
		b := fixed(t)
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := b.fs.RemoveAll("/db/shard-1"); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.left {
			if err := b.fs.Put(testShard+name, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		b.options.Known = c.known
		for start := range 2 {
			b.open()
			q := b.s.Quarantine().List()
			if c.loss && (len(q) != 1 || q[0].Loss != repair.LossPoints) || !c.loss && len(q) != 0 {
				t.Errorf("%s, start %d: quarantine %v", c.what, start, q)
			}
			b.put(start, 10, 0, 1)
			b.check()
			b.close()
		}
		if err := b.fs.RemoveAll(testShard + repair.QuarantineDir); err != nil {
			t.Fatal(err)
		}
		b.open()
		if q := b.s.Quarantine().List(); len(q) != 0 {
			t.Errorf("%s: quarantine %v after it was cleared", c.what, q)
		}
	}
}

// TestForeignManifest opens a shard's directory as another shard's and as that of
// another data directory: an error that names the file, and nothing changes.
func TestForeignManifest(t *testing.T) {
	b := fixed(t)
	b.options.Lineage = identity.Lineage{1}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.put(0, 100, 0, 1)
	b.close()
	files := b.fs.Files()
	for _, c := range []struct {
		id      uint64
		lineage identity.Lineage
		reason  string
	}{
		{2, identity.Lineage{1}, "belongs to shard 1"},
		{1, identity.Lineage{2}, "belongs to data directory 01"},
	} {
		// The other copy gone or damaged makes no difference.
		for _, harm := range []func(fs *vfstest.FS) error{
			func(*vfstest.FS) error { return nil },
			func(fs *vfstest.FS) error { return fs.Remove(testShard + manifest.Names[0]) },
			func(fs *vfstest.FS) error { return fs.Truncate(testShard+manifest.Names[1], 5) },
		} {
			fs := b.fs.Clone()
			if err := harm(fs); err != nil {
				t.Fatal(err)
			}
			harmed := len(fs.Files())
			_, err := Open("/db/shard-1", c.id, Options{FS: fs, Series: b.sf, Range: model.AllTime, Lineage: c.lineage})
			if !errors.Is(err, identity.ErrForeign) || !strings.Contains(err.Error(), testShard+manifest.Names[0]) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("opened as shard %d of %s: %v", c.id, c.lineage, err)
			}
			if now := fs.Files(); len(now) != harmed {
				t.Errorf("files %v became %v", files, now)
			}
		}
	}
	m, err := manifest.Adopt(b.fs, "/db/shard-1", b.fs.Content(testShard+manifest.Names[0]), identity.Lineage{2})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := manifest.Read(b.fs, "/db/shard-1"); err != nil || got.Lineage != (identity.Lineage{2}) || len(got.TSM) != 1 || got.Known() != m.Known() {
		t.Errorf("adopted as %+v, %v", got, err)
	}
}

// TestOlderManifest opens an older copy of a shard that is known to have had a newer
// manifest: the loss is told once, also after the next starts, until an operator takes the
// reason away.
func TestOlderManifest(t *testing.T) {
	b := fixed(t)
	b.put(0, 100, 0, 1)
	b.flush()
	old := b.fs.Clone()
	b.put(1, 100, 5000, 1)
	b.close()
	newest := b.s.Known()
	for _, damaged := range []bool{false, true} {
		b.fs = old.Clone()
		if damaged { // of the older manifest one copy
			if err := b.fs.Truncate(testShard+manifest.Names[0], 30); err != nil {
				t.Fatal(err)
			}
		}
		b.options.Known, b.options.LogAfter = newest, newest.Flushed
		for start := range 3 {
			b.open()
			var older []string
			for _, q := range b.s.Quarantine().List() {
				if q.Loss == repair.LossNewest {
					older = append(older, q.Reason)
				}
			}
			if want := fmt.Sprintf("edition %d had those up to %d", newest.Edition, newest.Flushed); len(older) != 1 || !strings.Contains(older[0], want) {
				t.Errorf("damaged %v, start %d: %q, want %q", damaged, start, older, want)
			}
			v := b.s.View()
			if l := v.Losses(); len(l) != 1 || !l[0].Older || !strings.Contains(l[0].String(), "older copy, see /db/shard-1/quarantine/MANIFEST") {
				t.Errorf("damaged %v: %v", damaged, l)
			}
			v.Release()
			if now := b.s.Known(); now.Edition <= newest.Edition {
				t.Errorf("edition %d is not above %d", now.Edition, newest.Edition)
			}
			if err := b.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.fs.RemoveAll(testShard + repair.QuarantineDir); err != nil {
			t.Fatal(err)
		}
		b.open()
		if q := b.s.Quarantine().List(); len(q) != 0 {
			t.Errorf("quarantine %v after it was cleared", q)
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
