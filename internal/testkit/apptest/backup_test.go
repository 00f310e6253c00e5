package apptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// halfProxy stands before a server. It passes on one object of a backup, and then of each
// object half, until the client has gone.
type halfProxy struct {
	*httptest.Server
	objects atomic.Int64  // that were asked for in this round
	half    chan struct{} // gets a value when an object is held
}

func newHalfProxy(t *testing.T, target string) *halfProxy {
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &halfProxy{half: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the client was killed
	proxy.ModifyResponse = func(r *http.Response) error {
		if q := r.Request; q.URL.Query().Get("object") != "" && q.Method == http.MethodGet && p.objects.Add(1) > 1 {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(io.LimitReader(r.Body, r.ContentLength/2), held{q.Context(), p.half}), r.Body}
		}
		return nil
	}
	p.Server = httptest.NewServer(proxy)
	t.Cleanup(p.Close)
	return p
}

// held is a body that says that it was reached, and goes on only to fail.
type held struct {
	ctx     context.Context
	reached chan<- struct{}
}

func (h held) Read([]byte) (int, error) {
	select {
	case h.reached <- struct{}{}:
		<-h.ctx.Done()
	case <-h.ctx.Done():
	}
	return 0, h.ctx.Err()
}

// TestBackupKilled kills the backup command again and again in the middle of
// its work, when half of an object is there. The last run goes on with what is there, and what
// it makes is sound and whole.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	const rows = 120_000
	for from := 0; from < rows; from += 10_000 {
		var b strings.Builder
		for i := from; i < from+10_000; i++ {
			x := uint64(i)*2654435761 + 88172645463325252
			fmt.Fprintf(&b, "m,h=%d v=%di,w=%di %d\n", i%10, int64(x^x<<13), int64(x^x>>7), int64(i)*1e11)
		}
		s.Write("db", b.String())
	}
	repo := t.TempDir()
	run := func(args ...string) *exec.Cmd { return exec.Command(bin, append(args, repo)...) }
	slow := newHalfProxy(t, s.URL)
	for round := range 8 {
		slow.objects.Store(0)
		cmd := run("backup", "-host", slow.URL)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-slow.half:
		case err := <-ended:
			t.Fatalf("round %d: the command ended with %v: %s", round, err, &output)
		}
		_ = cmd.Process.Kill()
		<-ended
		if whole, _ := filepath.Glob(repo + "/*.backup"); len(whole) > 0 {
			t.Fatalf("round %d: the backup counts as whole", round)
		}
	}
	if objects, err := filepath.Glob(repo + "/objects/*"); err != nil || len(objects) == 0 {
		t.Errorf("%d objects and parts after the kills, %v", len(objects), err)
	}
	if out, err := run("backup", "-host", s.URL).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := run("verify", "-backup").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	other := Start(t)
	other.Stop()
	other.Dir = t.TempDir()
	if out, err := commandOutput(ctx, bin, "restore", "-data", other.Dir, repo); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	other.Restart()
	if n, err := other.Count("db", "SELECT count(v) FROM m"); err != nil || n != rows {
		t.Errorf("%d rows, want %d, %v", n, rows, err)
	}
	other.Stop()
	s.Stop()
	if _, err := os.Stat(repo + "/LOCK"); err != nil {
		t.Error(err)
	}
}
