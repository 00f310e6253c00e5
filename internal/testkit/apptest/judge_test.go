package apptest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"testing"

	"tsdbd/internal/testkit/judge"
	"tsdbd/internal/testkit/testseed"
)

var (
	judgeSeeds = flag.Int("judge-seeds", 2, "seeds of TestJudge")
	judgeSteps = flag.Int("judge-steps", 16, "steps of a seed of TestJudge")
)

// judged is a server that is judged.
type judged struct{ *Server }

func (s judged) Post(path string, params url.Values, body string) (int, string, error) {
	return s.Do(context.Background(), http.MethodPost, path, params, body)
}

func (s judged) Crash() { s.Kill() }
func (s judged) Start() { s.Server.Restart() }

func (s judged) Restart() {
	s.Stop()
	s.Server.Restart()
}

func (s judged) Restore() {
	repo, dir := s.t.TempDir(), s.t.TempDir()
	for _, args := range [][]string{{"backup", "-host", s.URL, repo}, {"restore", "-data", dir, repo}} {
		if out, err := exec.Command(Binary(s.t), args...).CombinedOutput(); err != nil {
			s.t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	s.Kill()
	s.Dir = dir
	s.Server.Restart()
}

// TestJudge: downsamples have what the documents promise, whatever is done to them.
func TestJudge(t *testing.T) {
	t.Parallel()
	first := testseed.Of(t)
	for n := range uint64(*judgeSeeds) {
		t.Run(fmt.Sprint(first+n), func(t *testing.T) {
			t.Parallel()
			s := New(t)
			use := []string{"expired", "complete"}[(first+n)%3/2]
			s.Env = []string{"TSDBD_RETENTION_CHECK_INTERVAL=100ms", "TSDBD_DATA_FLUSH_SIZE=64KiB", "TSDBD_QUERY_USE_DOWNSAMPLES=" + use}
			s.Restart()
			judge.Run(t, judged{s}, judge.Options{Seed: first + n, Steps: *judgeSteps, Asks: 12, Complete: use == "complete"})
		})
	}
}
