package apptest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBackupKilled kills the backup command again and again in the middle of
// its work. The last run goes on with what is there, and what it makes is
// sound and whole.
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
	copied := func() int {
		names, err := filepath.Glob(repo + "/objects/*")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	killed := 0
	for range 8 {
		cmd := run("backup", "-host", s.URL)
		before := copied()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
				if copied() > before {
					_ = cmd.Process.Kill()
					<-done
					running = false
				}
				time.Sleep(50 * time.Microsecond)
			}
		}
		if whole, _ := filepath.Glob(repo + "/*.backup"); len(whole) > 0 {
			break
		}
		killed++
	}
	t.Logf("killed %d times, %d objects or parts were there", killed, copied())
	if killed == 0 {
		t.Error("never killed in the middle")
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
