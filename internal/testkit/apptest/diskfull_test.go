//go:build linux

package apptest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var fullMiB = flag.Int("full-mib", 80, "size of the file systems of TestDiskFull in MiB")

// mountTmpfs mounts a small file system in memory, or skips.
func mountTmpfs(t *testing.T, mib int) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

// mountExt4 mounts a small ext4 on a loop device, or skips.
func mountExt4(t *testing.T, mib int) string {
	t.Helper()
	d, err := NewDisk(t, mib)
	if err != nil {
		t.Skip(err)
	}
	return d.Dir
}

// TestDiskFull fills the disk by writes and by a file beside the data.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]func(*testing.T, int) string{"tmpfs": mountTmpfs, "ext4": mountExt4} {
		t.Run(name, func(t *testing.T) {
			dir := mount(t, *fullMiB)
			s := New(t)
			s.Dir = filepath.Join(dir, "data")
			s.Env = []string{"TSDBD_DATA_WAL_SEGMENT_SIZE=8MiB", "TSDBD_DATA_WAL_MAX_SIZE=32MiB", "TSDBD_DATA_FLUSH_SIZE=4MiB"}
			s.Restart()
			diskFull(t, s, filepath.Join(dir, "ballast"))
		})
	}
}

// fullBatch makes points that hardly compress, all at times of their own.
func fullBatch(n int) (lines string, points int64) {
	var b strings.Builder
	x := uint64(n)*2654435761 + 88172645463325252
	for i := range 1000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "m,host=h%d v=%di,n=%di %d\n", i%10, int64(x), n, int64(n)*1000+int64(i))
	}
	return b.String(), 1000
}

// resume posts until a batch is stored, now that there is space again. The
// server looks for space every quarter of a second.
func resume(t *testing.T, s *Server, post func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !post() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("still refused %v after there is space\n%s", time.Since(begin), tail(s.Log()))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begin)
}

func diskFull(t *testing.T, s *Server, ballast string) {
	ctx := context.Background()
	s.Query("", "CREATE DATABASE db")
	s.Query("", "CREATE DATABASE gone")
	s.Write("gone", "m v=1 1")
	s.Write("db", "other v=1 1\nother v=2 2")
	sure := map[int]bool{}
	stored, batch := int64(0), 0
	slowest := time.Duration(0) // answer to a write
	post := func() bool {
		t.Helper()
		lines, n := fullBatch(batch)
		begin := time.Now()
		ok, err := s.Post(ctx, "db", lines)
		slowest = max(slowest, time.Since(begin))
		if err != nil {
			t.Fatalf("batch %d: %v\n%.3000s", batch, err, s.Log())
		}
		sure[batch] = ok
		if batch++; ok {
			stored += n
		}
		return ok
	}
	check := func(when string) {
		t.Helper()
		got, err := s.Count("db", "SELECT count(v) FROM m")
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got != stored {
			t.Errorf("%s: %d points, %d were acknowledged", when, got, stored)
		}
		for n, ok := range sure {
			if ok || n%7 != 0 {
				continue
			}
			if got, err := s.Count("db", fmt.Sprintf("SELECT count(v) FROM m WHERE n = %d", n)); err != nil || got != 0 {
				t.Errorf("%s: %d points of the refused batch %d are visible, %v", when, got, n, err)
				break
			}
		}
	}
	for range 20 {
		if !post() {
			t.Fatal("refused on an empty disk")
		}
	}
	FillDisk(t, ballast)
	// What is allocated ahead may take some more.
	refused := 0
	for begin := time.Now(); refused < 20; {
		if !post() {
			refused++
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("a full disk takes everything: %d points", stored)
		}
	}
	check("full")
	if status, text := s.Health(); status != http.StatusOK && status != http.StatusServiceUnavailable || !strings.Contains(text, "disk full") {
		t.Errorf("health on a full disk: %d %s", status, text)
	}
	// A new database and a new shard group need the catalog.
	if status, body, err := s.Do(ctx, http.MethodPost, "/query", url.Values{"q": {"CREATE DATABASE late"}}, ""); err != nil || status != http.StatusOK || !strings.Contains(body, "disk full") {
		t.Errorf("CREATE DATABASE on a full disk: %d %.300s %v", status, body, err)
	}
	if ok, err := s.Post(ctx, "db", fmt.Sprintf("far v=1 %d", 400*24*time.Hour)); ok || err != nil {
		t.Errorf("a write that needs a shard group: stored %v, %v", ok, err)
	}
	if v, ok := s.Metric("tsdbd_store_disk_full"); !ok || v != 1 {
		t.Errorf("tsdbd_store_disk_full is %v %v", v, ok)
	}
	if v, _ := s.Metric("tsdbd_store_points_failed_total"); v == 0 {
		t.Error("tsdbd_store_points_failed_total is 0")
	}
	// Deletes make room; they must not need it.
	for _, q := range []string{"DELETE FROM other WHERE time = 1", "DROP SERIES FROM nosuch", "DROP MEASUREMENT other", "DROP RETENTION POLICY autogen ON gone", "DROP DATABASE gone"} {
		FillDisk(t, ballast) // others take what becomes free
		status, body, err := s.Do(ctx, http.MethodPost, "/query", url.Values{"db": {"db"}, "q": {q}}, "")
		if err != nil || status != http.StatusOK || strings.Contains(body, "error") {
			t.Errorf("%s on a full disk: %d %.300s %v", q, status, body, err)
		}
	}
	if got, err := s.Count("db", "SELECT count(v) FROM other"); err != nil || got != 0 {
		t.Errorf("%d rows of a dropped measurement, %v", got, err)
	}
	// Without a restart first: nothing may stick.
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	resume(t, s, post)
	s.Query("", "CREATE DATABASE late")
	s.Write("db", fmt.Sprintf("far v=1 %d", 400*24*time.Hour))
	check("space again, without a restart")
	FillDisk(t, ballast)
	for n := refused; refused < n+10; {
		if !post() {
			refused++
		}
	}
	FillDisk(t, ballast)
	s.Kill()
	s.Restart()
	check("killed and started on a full disk")
	for range 5 {
		post()
	}
	check("refused after the start")
	s.Stop()
	s.Restart()
	check("stopped and started on a full disk")
	// Space comes back: so do writes.
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	took := resume(t, s, post)
	if v, _ := s.Metric("tsdbd_store_disk_full"); v != 0 {
		t.Errorf("tsdbd_store_disk_full is %v after a write", v)
	}
	if status, text := s.Health(); status != http.StatusOK || strings.Contains(text, "disk full") {
		t.Errorf("health afterwards: %d %s", status, text)
	}
	check("space again")
	s.Kill()
	s.Restart()
	check("killed and started with space")
	if strings.Contains(s.Query("gone", "SELECT * FROM m"), "series") {
		t.Error("the dropped database is back")
	}
	if slowest > time.Minute {
		t.Errorf("a write was answered after %v", slowest)
	}
	t.Logf("%d points stored, %d batches refused, accepted again after %v, slowest answer %v", stored, batch-int(stored/1000), took.Round(time.Millisecond), slowest.Round(time.Millisecond))
	s.Stop()
}
