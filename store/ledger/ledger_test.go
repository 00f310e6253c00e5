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
	known.Open, known.Told = false, true
	set(known, false)
	got := f.Content(ledgerPath)
	const name = "testdata/ledger-v2.golden"
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
	if err != nil || !whole || back.Log != known || back.Relaxed || !maps.Equal(back.Shards, map[uint64]Shard{7: {2, manifest.Known{Edition: 5, Flushed: 260}}, 8: {2, manifest.Known{Edition: 1}}}) || back.Lineage != (identity.Lineage{1, 2, 3, 0xfe}) {
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
			_ = l.SetLog(func(k *wal.Known, _ *bool) { k.Segment = i + 1 })
		}
		f.SetHook(nil)
		if err := l.SetLog(func(k *wal.Known, _ *bool) { k.Sequence = 9 }); err != nil {
			t.Fatal(err)
		}
		for _, left := range []*vfstest.FS{f, f.Crash(rand.New(rand.NewPCG(testseed.Of(t), uint64(n))), 0)} {
			back, whole, err := Read(left, "/data")
			if err != nil || !whole || len(back.Shards) != 4 || back.Log.Segment != 4 || back.Log.Sequence != 9 {
				t.Fatalf("fault %d: %+v, %v, %v", n, back, whole, err)
			}
		}
		if !hit {
			return
		}
	}
}
