package ledger

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/wal"
)

var update = flag.Bool("update", false, "write golden files that do not exist")

const ledgerPath = "/data/meta/" + Name

// TestLedgerGolden holds the format still.
func TestLedgerGolden(t *testing.T) {
	f := vfstest.New()
	if err := f.MkdirAll("/data/meta"); err != nil {
		t.Fatal(err)
	}
	l, err := Open(f, "/data", identity.Lineage{1, 2, 3, 0xfe}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.Add(7, 2, manifest.Known{Edition: 3, Flushed: 150})
	known := wal.Known{Segment: 5, Sequence: 300, Covered: 200, Open: true}
	set := func(to wal.Known, relaxedTo bool) {
		t.Helper()
		if err := l.SetLog(func(k *wal.Known, relaxed *bool) { *k, *relaxed = to, relaxedTo }); err != nil {
			t.Fatal(err)
		}
	}
	set(known, true)
	l.Add(8, 2, manifest.Known{Edition: 1})
	l.Add(7, 2, manifest.Known{Edition: 5, Flushed: 260})
	l.Add(7, 2, manifest.Known{Edition: 4, Flushed: 250}) // is known already
	sr := openSeries(t, f, "a", "b", "c")
	if err := l.SyncSeries(2, sr); err != nil {
		t.Fatal(err)
	}
	known.Open, known.Told = false, true
	set(known, false)
	got := f.Content(ledgerPath)
	const name = "testdata/ledger-v3.golden"
	if _, err := os.Stat(name); *update && errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the ledger's bytes changed:\n%x\nwant\n%x", got, want)
	}
	back, whole, err := decode("x", want)
	if err != nil || !whole || back.Log != known || back.Relaxed || !maps.Equal(back.Shards, map[uint64]Shard{7: {2, manifest.Known{Edition: 5, Flushed: 260}}, 8: {2, manifest.Known{Edition: 1}}}) || !maps.Equal(back.IDs, map[uint32]IDs{2: {Next: 4}}) || back.Lineage != (identity.Lineage{1, 2, 3, 0xfe}) {
		t.Errorf("read as %+v, %v, %v", back, whole, err)
	}
	page, err := os.ReadFile("../../docs/formats/ledger.md")
	if err != nil || !strings.Contains(string(page), hex.Dump(want)) {
		t.Errorf("the example of the format page is not the golden file: %v\n%s", err, hex.Dump(want))
	}
	// No damaged byte is believed, and no cut one.
	for i := range want {
		bad := bytes.Clone(want)
		bad[i] ^= 4
		if l, whole, err := decode("x", bad); err == nil && whole || err != nil && !errors.Is(err, binio.ErrCorrupt) || err == nil && len(l.Shards) > 2 {
			t.Errorf("byte %d: %+v, %v, %v", i, l, whole, err)
		}
		if _, whole, err := decode("x", want[:i]); err == nil && whole && (i-headerBytes)%recordBytes != 0 {
			t.Errorf("cut at %d: whole", i)
		}
	}
}

// openSeries makes a series file with keys.
func openSeries(t *testing.T, f *vfstest.FS, keys ...string) *series.File {
	t.Helper()
	sr, err := series.Open(f, "/data/db-2/series", series.Options{})
	if err == nil {
		err = sr.CreateAll(keys, make([]model.SeriesID, len(keys)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return sr
}

// TestIDs opens a series file that has lost its end: the ids are not given again, and the
// loss is told until a start has noted that. A whole file is told of again when it loses
// its end.
func TestIDs(t *testing.T) {
	const log = "/data/db-2/series/" + series.LogName
	f := vfstest.New()
	if err := f.Put("/data/meta/catalog.0", nil); err != nil {
		t.Fatal(err)
	}
	open := func() *File {
		t.Helper()
		l, err := Open(f, "/data", identity.Lineage{1}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	save := func(l *File) {
		t.Helper()
		if err := l.SetLog(func(*wal.Known, *bool) {}); err != nil {
			t.Fatal(err)
		}
	}
	l, sr := open(), openSeries(t, f, "a", "b", "c")
	if err := l.SyncSeries(2, sr); err != nil {
		t.Fatal(err)
	}
	save(l)
	whole := f.Content(log)
	for round := range 2 {
		if err := f.Put(log, nil); err != nil {
			t.Fatal(err)
		}
		for start := range 3 {
			l, sr := open(), openSeries(t, f)
			err := l.Reserve(2, sr)
			if told := start < 2; told != errors.Is(err, binio.ErrCorrupt) || told && !strings.Contains(err.Error(), "lacks 3 series, with the ids 1 to 3,") {
				t.Errorf("round %d, start %d: %v", round, start, err)
			}
			if sr.Given() != 4 {
				t.Errorf("round %d, start %d: %d is given next", round, start, sr.Given())
			}
			if start > 0 {
				save(l)
			}
		}
		if err := f.Put(log, whole); err != nil {
			t.Fatal(err)
		}
		l, sr := open(), openSeries(t, f)
		if err := l.Reserve(2, sr); err != nil {
			t.Error(err)
		}
		save(l)
	}
	l = open()
	l.Prune(&meta.Data{})
	save(l)
	if back, whole, err := Read(f, "/data"); err != nil || !whole || len(back.IDs) > 0 {
		t.Errorf("ids of a database that is gone: %+v, %v, %v", back, whole, err)
	}
}

// TestLedgerFaults fails every write of the ledger once: the next one makes it
// whole.
func TestLedgerFaults(t *testing.T) {
	for n := 1; ; n++ {
		f := vfstest.New()
		if err := f.Put("/data/meta/catalog.0", nil); err != nil {
			t.Fatal(err)
		}
		l, err := Open(f, "/data", identity.Lineage{1}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		hit, start := false, f.Ops()
		f.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				hit = true
				return errors.New("input/output error")
			}
			return nil
		})
		for i := range uint64(4) {
			l.Add(i+1, 1, manifest.Known{Edition: i + 1})
			l.mu.IDs[7], l.mu.given[7] = IDs{Next: i + 2}, true
			_ = l.SetLog(func(k *wal.Known, _ *bool) { k.Segment = i + 1 })
		}
		f.SetHook(nil)
		if err := l.SetLog(func(k *wal.Known, _ *bool) { k.Sequence = 9 }); err != nil {
			t.Fatal(err)
		}
		for _, left := range []*vfstest.FS{f, f.Crash(rand.New(rand.NewPCG(testseed.Of(t), uint64(n))), 0)} {
			back, whole, err := Read(left, "/data")
			if err != nil || !whole || len(back.Shards) != 4 || back.IDs[7].Next != 5 || back.Log.Segment != 4 || back.Log.Sequence != 9 {
				t.Fatalf("fault %d: %+v, %v, %v", n, back, whole, err)
			}
		}
		if !hit {
			return
		}
	}
}
