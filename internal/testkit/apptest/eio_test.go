//go:build linux

package apptest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestFailedSync lets the sync of the log fail under eight writers: from then
// on nothing is acknowledged, everything from before is readable, and a
// restart heals.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	for _, f := range []struct{ call, fault string }{
		{"fdatasync", "error=EIO"},
		{"pwrite64", "error=EIO"},
	} {
		t.Run(f.call, func(t *testing.T) { failedSync(t, f.call, f.fault) })
	}
}

func failedSync(t *testing.T, call, fault string) {
	ctx := context.Background()
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	for i := range 50 {
		s.Write("db", fmt.Sprintf("m,w=before v=%di %d", i, i))
	}
	end := Inject(t, s, call, fault)
	type answer struct {
		stored bool
		err    error
	}
	answers := make(chan answer)
	const batches = 24
	for w := range 8 {
		go func() {
			for i := range batches / 8 {
				stored, err := s.Post(ctx, "db", fmt.Sprintf("m,w=after v=%di %d", i, w*100+i))
				answers <- answer{stored, err}
			}
		}()
	}
	for range batches {
		a := <-answers
		if a.err != nil {
			t.Errorf("write: %v", a.err)
		}
		if a.stored {
			t.Error("204 for a batch whose " + call + " failed")
		}
	}
	end()
	// The disk is well again; the store must not trust it.
	if stored, err := s.Post(ctx, "db", "m,w=late v=1i 1"); stored || err != nil {
		t.Errorf("a write after the failure: stored %v, %v", stored, err)
	}
	status, text := s.Health()
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "read-only") {
		t.Errorf("health: %d %s", status, text)
	}
	if v, ok := s.Metric("tsdbd_store_read_only"); !ok || v != 1 {
		t.Errorf("tsdbd_store_read_only is %v %v", v, ok)
	}
	count := func(w string) int64 {
		t.Helper()
		n, err := s.Count("db", "SELECT count(v) FROM m WHERE w = '"+w+"'")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("before"); n != 50 {
		t.Errorf("%d points from before, want 50", n)
	}
	if n := count("after"); n != 0 {
		t.Errorf("%d points are visible that were not acknowledged", n)
	}
	if status, body, err := s.Do(ctx, http.MethodPost, "/query", map[string][]string{"db": {"db"}, "q": {"DELETE FROM m"}}, ""); err != nil || !strings.Contains(body, "read-only") {
		t.Errorf("delete on a read-only store: %d %s %v", status, body, err)
	}
	s.Kill()
	s.Restart()
	if n := count("before"); n != 50 {
		t.Errorf("%d points from before after a restart, want 50", n)
	}
	if status, text := s.Health(); status != http.StatusOK {
		t.Errorf("health after a restart: %d %s", status, text)
	}
	s.Write("db", "m,w=late v=1i 1")
	s.Stop()
}
