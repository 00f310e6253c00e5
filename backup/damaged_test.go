package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/store"
)

// TestSkipDamaged backs a server up of whose files some are damaged on its
// disk. What is restored has the rest, and says what is missing.
func TestSkipDamaged(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.apply(t, meta.CreateDatabase{Name: "d"})
	for shard := range 3 {
		var b strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&b, "m,h=%d,s=%d v=%d %d\n", i%5, shard, i*7919%1009, int64(shard)*week+int64(i)*1e9)
		}
		s.write(t, "d", "", b.String())
	}
	take(t, s, t.TempDir(), exchange.Filter{}) // flushes
	for pattern, shard := range map[string]string{"*.tsm": "shard-1", "*.tsi": "shard-3"} {
		names, err := filepath.Glob(filepath.Join(s.dir, "db-1", shard, pattern))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/3] ^= 1
		if err := os.WriteFile(names[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	r := OpenRepository(vfs.OS, dir)
	if _, err := Take(context.Background(), s.client, r, TakeOptions{}); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a damaged file: %v", err)
	}
	res, err := Take(context.Background(), s.client, r, TakeOptions{SkipDamaged: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Damaged) != 2 {
		t.Fatalf("left out: %v", res.Damaged)
	}
	_, m, err := r.Manifest(t.Context(), "")
	if err != nil || len(m.Damaged) != 2 {
		t.Fatalf("the manifest tells of %v, %v", m.Damaged, err)
	}
	if damage, err := r.Check(context.Background(), m, nil); err != nil || len(damage) > 0 {
		t.Errorf("check: %v %v", damage, err)
	}
	if left, _ := filepath.Glob(dir + "/objects/*.part"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	to := t.TempDir()
	if _, err := Place(context.Background(), r, to, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(to, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := exchange.Export(t.Context(), st, io.Discard, exchange.ExportOptions{}); !errors.As(err, new(*scan.DamageError)) {
		t.Errorf("export of what lacks points: %v", err)
	}
	var b strings.Builder
	if _, err := exchange.Export(t.Context(), st, &b, exchange.ExportOptions{Filter: exchange.Filter{Partial: true}}); err != nil || !strings.Contains(b.String(), "\n# points are missing in shard 1, ") {
		t.Errorf("partial export: %v\n%.500s", err, b.String())
	}
	lines := dump(t, st, exchange.Filter{Partial: true})
	for shard, want := range []int{0, 2000, 2000} {
		n := 0
		for _, l := range lines {
			var at int64
			if _, err := fmt.Sscan(l[strings.LastIndexByte(l, ' ')+1:], &at); err == nil && at >= int64(shard)*week && at < int64(shard+1)*week {
				n++
			}
		}
		if n != want {
			t.Errorf("week %d: %d rows, want %d", shard, n, want)
		}
	}
	if _, text := st.Health(); !strings.Contains(text, "quarantine") {
		t.Errorf("health: %s", text)
	}
	// A backup of a server that has lost points needs the same word.
	h := NewHandler(st, HandlerOptions{Dir: to})
	defer h.Close()
	lossy := httptest.NewServer(h)
	defer lossy.Close()
	again := OpenRepository(vfs.OS, t.TempDir())
	c := &exchange.Client{URL: lossy.URL}
	if _, err := Take(t.Context(), c, again, TakeOptions{}); err == nil || !strings.Contains(err.Error(), "d.autogen: points are missing in shard 1, ") {
		t.Errorf("backup of what lacks points: %v", err)
	}
	if _, err := Take(t.Context(), c, again, TakeOptions{SkipDamaged: true}); err != nil {
		t.Errorf("backup of what is left: %v", err)
	}
	v, err := st.Partial().View("d", "", model.AllTime)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	if l := v.Losses(); len(l) != 1 || l[0].Shard != 1 {
		t.Errorf("losses: %v", l)
	}
}
