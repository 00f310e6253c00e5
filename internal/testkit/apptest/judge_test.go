//go:build linux

package apptest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tsdbd/internal/testkit/judge"
	"tsdbd/internal/testkit/testseed"
)

var (
	judgeSeeds = flag.Int("judge-seeds", 2, "seeds of TestJudge")
	judgeSteps = flag.Int("judge-steps", 16, "steps of a seed of TestJudge")
)

// judged is a server that is judged.
type judged struct {
	*Server
	disk *Disk // nil: there can be none
	dirs int   // on the disk
}

func (s *judged) Post(path string, params url.Values, body string) (int, string, error) {
	return s.Do(context.Background(), http.MethodPost, path, params, body)
}

func (s *judged) Crash() { s.Kill() }

func (s *judged) Cut() {
	if s.disk == nil {
		s.Kill()
		return
	}
	if err := s.disk.CutPower(); err != nil {
		s.t.Fatal(err)
	}
	s.Kill()
	s.disk.Restore()
}

// place returns a directory for the data of a server.
func (s *judged) place() string {
	if s.disk == nil {
		return s.t.TempDir()
	}
	s.dirs++
	return filepath.Join(s.disk.Dir, fmt.Sprint("data", s.dirs))
}

func (s *judged) Start() { s.Server.Restart() }

func (s *judged) Restart() {
	s.Stop()
	s.Server.Restart()
}

func (s *judged) Restore() {
	repo, dir, old := s.t.TempDir(), s.place(), s.Dir
	for _, args := range [][]string{{"backup", "-host", s.URL, repo}, {"restore", "-data", dir, repo}} {
		if out, err := exec.Command(Binary(s.t), args...).CombinedOutput(); err != nil {
			s.t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	s.Kill()
	s.Dir = dir
	if err := os.RemoveAll(old); err != nil {
		s.t.Fatal(err)
	}
	s.Server.Restart()
}

// TestJudge: downsamples have what the documents promise, whatever is done to them.
func TestJudge(t *testing.T) {
	t.Parallel()
	first := testseed.Of(t)
	for n := range uint64(*judgeSeeds) {
		t.Run(fmt.Sprint(first+n), func(t *testing.T) {
			t.Parallel()
			disk, err := NewDisk(t, 256) // before the server, which ends before its disk does
			if err != nil {
				t.Logf("no power is cut: %v", err)
			}
			s := &judged{Server: New(t), disk: disk}
			s.Dir = s.place()
			use := []string{"expired", "complete"}[(first+n)%3/2]
			s.Env = []string{"TSDBD_RETENTION_CHECK_INTERVAL=100ms", "TSDBD_DATA_FLUSH_SIZE=64KiB", "TSDBD_QUERY_USE_DOWNSAMPLES=" + use}
			s.Start()
			judge.Run(t, s, judge.Options{Seed: first + n, Steps: *judgeSteps, Asks: 12, Complete: use == "complete"})
		})
	}
}
