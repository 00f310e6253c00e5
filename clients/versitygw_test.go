package clients

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// TestVersitygw has versitygw, a server with the API of S3 on a directory, be the cold store: shards go
// there, are asked for, lose deleted rows, and are backed up beside and restored; what nobody
// needs is removed.
func TestVersitygw(t *testing.T) {
	s := newSuite(t, "versitygw")
	s.alone()
	bin := s.need("versitygw", "make clients-s3 builds it")
	if info, err := buildinfo.ReadFile(bin); err == nil {
		s.version = strings.TrimPrefix(info.Main.Version, "v")
	}
	const key = "tsdbd-and-versitygw"
	dir, addr := t.TempDir(), apptest.FreeAddress(t)
	for _, name := range []string{"data/archive", "data/contract", "about"} {
		s.must(os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	cmd := exec.Command(bin, "--access", key, "--secret", key, "--port", addr, "--quiet", "posix", "--sidecar", filepath.Join(dir, "about"), filepath.Join(dir, "data"))
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.must(cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%.3000s", log.String())
		}
	}()
	endpoint := "http://" + addr
	await(t, endpoint, http.StatusForbidden)
	out, errs, err := command(t, root(), nil, "", "go", "test", "-count=1", "./internal/object/s3", "-run", "^TestServer$",
		"-s3-endpoint="+endpoint, "-s3-bucket=contract", "-s3-key="+key)
	if err != nil {
		err = fmt.Errorf("%w: %s%s", err, out, errs)
	}
	s.check("interface", err)

	const place = "s3://archive/db1"
	server := start(t, "TSDBD_COLD_URL="+place, "TSDBD_COLD_ENDPOINT="+endpoint, "TSDBD_COLD_PATH_STYLE=true", "TSDBD_COLD_ACCESS_KEY="+key,
		"TSDBD_COLD_SECRET_KEY="+key, "TSDBD_COLD_AFTER=1h", "TSDBD_COLD_CACHE_SIZE=16MiB", "TSDBD_COLD_GRACE=1m",
		"TSDBD_DATA_FLUSH_IDLE=100ms", "TSDBD_DATA_COMPACT_AFTER=100ms")
	server.Query("", "CREATE DATABASE d")
	var lines strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 40_000 {
		fmt.Fprintf(&lines, "m,h=h%d v=%d,f=%g %d\n", i%6, r.IntN(1000), r.Float64(), 1_500_000_000_000_000_000+int64(i)*60_000_000_000)
	}
	server.Write("d", lines.String())
	questions := map[string]string{}
	for _, q := range []string{
		"SELECT count(v), mean(f), percentile(v, 90) FROM m GROUP BY h",
		"SELECT percentile(f, 42) FROM m GROUP BY time(1d) fill(none)",
		"SELECT * FROM m WHERE v = 77 LIMIT 20",
	} {
		questions[q] = server.Query("d", q)
	}
	same := func(name string, of *apptest.Server) {
		t.Helper()
		for q, want := range questions {
			s.equal(name+": "+q, of.Query("d", q), want)
		}
	}
	do := func(what string) string {
		t.Helper()
		p := url.Values{"do": {what}, "deep": {"true"}}
		status, body, err := server.Do(context.Background(), http.MethodPost, "/api/tsdbd/cold", p, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		s.check(what, err)
		return body
	}
	chill := func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			do("sweep")
			var st struct{ Shards []struct{} }
			_, body, err := server.Do(context.Background(), http.MethodGet, "/api/tsdbd/cold", nil, "")
			s.must(err)
			s.must(json.Unmarshal([]byte(body), &st))
			if len(st.Shards) >= 4 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("shards do not go to the store: %s\n%s", body, server.Log())
			}
		}
	}
	chill()
	same("cold", server)
	server.Stop()
	server.Restart()
	same("after a restart", server)

	const gone = "m WHERE h = 'h3'"
	server.Query("d", "DELETE FROM "+gone)
	clear(questions)
	const left = "SELECT count(v), percentile(f, 42) FROM m GROUP BY h"
	questions[left] = server.Query("d", left)
	s.equal("deleted rows", strings.Contains(questions[left], "h3"), false)
	chill() // which takes them out of the store first
	if n, ok := server.Metric("tsdbd_cold_purged_shards_total"); !ok || n < 4 {
		s.check("purge", fmt.Errorf("%g shards were written again", n))
	}
	same("after a purge", server)

	tsdbd := func(args ...string) string {
		t.Helper()
		out, errs, err := command(t, dir, []string{"TSDBD_S3_ENDPOINT=" + endpoint, "AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + key}, "",
			append([]string{apptest.Binary(t)}, args...)...)
		if err != nil {
			err = fmt.Errorf("%w: %s%s", err, out, errs)
		}
		s.check("tsdbd "+args[0], err)
		return out + errs
	}
	if out := tsdbd("backup", "-host", server.URL, place); !strings.Contains(out, "of it 0.0MiB copied") {
		s.check("backup beside", fmt.Errorf("%s", out))
	}
	restored := apptest.New(t)
	tsdbd("restore", "-data", restored.Dir, place)
	restored.Restart()
	same("restored", restored)
	restored.Stop()

	stray := filepath.Join(dir, "data/archive/db1/objects/0000000000000000-1-1-1-1.tsm")
	s.must(os.WriteFile(stray, []byte("x"), 0o600))
	s.must(os.Chtimes(stray, time.Time{}, time.Now().Add(-time.Hour)))
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Second) {
		do("sweep")
		if _, err := os.Stat(stray); os.IsNotExist(err) {
			break
		}
		if time.Now().After(deadline) {
			s.check("sweep", fmt.Errorf("an object that nobody needs is left"))
			break
		}
	}
	if body := do("verify"); !strings.Contains(body, `"problems":[]`) {
		s.check("verify", fmt.Errorf("%s", body))
	}
	same("at the end", server)
	do("fetch")
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	same("local again", server)
	_ = cmd.Process.Signal(syscall.SIGCONT)
}
