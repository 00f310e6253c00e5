package backup

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
)

// TestWhole: a backup of everything keeps the shards that have no files, and Place
// gives the sequence of the log's last change, so that entries behind the backup find
// their shards.
func TestWhole(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	s.apply(t, meta.CreateShardGroup{Database: "d", RetentionPolicy: "long", Time: 900 * week})
	dir := t.TempDir()
	r := OpenRepository(vfs.OS, filepath.Join(dir, "repository"))
	shards := func(whole bool) int {
		t.Helper()
		if _, err := Take(t.Context(), s.client, r, TakeOptions{Whole: whole}); err != nil {
			t.Fatal(err)
		}
		_, m, err := r.Manifest(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if m.Catalog.Applied != s.Catalog().Applied {
			t.Errorf("the catalog is of change %d, want %d", m.Catalog.Applied, s.Catalog().Applied)
		}
		n := 0
		for range m.Catalog.Shards() {
			n++
		}
		return n
	}
	want := 0
	for range s.Catalog().Shards() {
		want++
	}
	if n := shards(true); n != want {
		t.Errorf("a whole backup has %d shards of %d", n, want)
	}
	if n := shards(false); n != want-1 {
		t.Errorf("a backup of files has %d shards, the server has %d and one is empty", n, want)
	}
}

// TestHave fetches nothing that a data directory has, but what is damaged there.
func TestHave(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	first := OpenRepository(vfs.OS, filepath.Join(t.TempDir(), "repository"))
	if _, err := Take(t.Context(), s.client, first, TakeOptions{Whole: true}); err != nil {
		t.Fatal(err)
	}
	for _, link := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "old")
		if _, err := Place(t.Context(), first, dir, RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "db-*", "shard-*", "*.ts?"))
		if err != nil || len(files) < 4 {
			t.Fatalf("%q, %v", files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/3] ^= 1
		if err := os.WriteFile(files[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		repository := OpenRepository(vfs.OS, filepath.Join(t.TempDir(), "repository"))
		res, err := Take(t.Context(), s.client, repository, TakeOptions{Whole: true, Have: dir})
		if err != nil {
			t.Fatal(err)
		}
		// The first pieces of the series logs name their directories.
		series := int64(0)
		_, m, err := repository.Manifest(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range m.Series {
			series += l.Pieces[0].Size
		}
		if want := int64(len(b)) + series; res.Copied != want {
			t.Errorf("%d bytes copied of %d, want %d", res.Copied, res.Bytes, want)
		}
		to := filepath.Join(t.TempDir(), "new")
		if _, err := Place(t.Context(), repository, to, RestoreOptions{Link: link}); err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(to, store.Options{RetentionInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "placed", dump(t, st, exchange.Filter{}), dump(t, s, exchange.Filter{}))
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeep: a session outlives a client that is busy for longer than the server waits.
func TestKeep(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	var kept atomic.Int32
	enough := make(chan struct{})
	expire := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		if r.URL.Query().Get("object") == "" {
			if kept.Add(1) == 3 {
				close(enough)
			}
			return false
		}
		<-enough
		return false
	}
	s.fault.Store(&expire)
	r := OpenRepository(vfs.OS, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Take(ctx, s.client, r, TakeOptions{Keep: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	m, err := begin(t.Context(), s.client, &exchange.Filter{}, true)
	if err != nil {
		t.Fatal(err)
	}
	session := func() *session {
		s.handler.mu.Lock()
		defer s.handler.mu.Unlock()
		return s.handler.sessions[m.Session]
	}
	before := session().used
	keepCtx, stop := context.WithCancel(t.Context())
	defer stop()
	go keep(keepCtx, s.client, m.Session, time.Millisecond)
	for renewed := false; !renewed; time.Sleep(time.Millisecond) {
		s.handler.mu.Lock()
		renewed = s.handler.sessions[m.Session].used.After(before)
		s.handler.mu.Unlock()
	}
	s.handler.expireAt(before.Add(s.handler.opt.Idle))
	if session() == nil {
		t.Error("a session that was renewed has ended")
	}
}
