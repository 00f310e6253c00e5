//go:build linux

package clustertest

import (
	"context"
	"flag"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"

	"tsdbd/internal/testkit/judge"
	"tsdbd/internal/testkit/testseed"
)

var judgeSteps = flag.Int("judge-steps", 10, "steps of TestJudge")

// judged is a cluster that is judged. Each request goes to the next node, and reads what was
// answered before.
type judged struct {
	*cluster
	next     int
	position uint64
	killed   *node
}

func (j *judged) Post(path string, params url.Values, body string) (status int, answer string, err error) {
	params = maps.Clone(params)
	if path == "/query" {
		params.Set("consistency", "strong")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		j.next++
		n := j.nodes[j.next%len(j.nodes)]
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		a, failed := n.ask(ctx, http.MethodPost, path, params, body, j.position)
		cancel()
		if failed == nil && a.status < http.StatusInternalServerError {
			j.position = max(j.position, a.position())
			return a.status, a.body, nil
		}
		status, answer, err = a.status, a.body, failed
	}
	return status, answer, err
}

func (j *judged) Crash() {
	j.killed = j.leader()
	j.killed.Kill()
}

func (j *judged) Cut() {
	n := j.leader()
	if n.disk == nil {
		j.Crash()
		return
	}
	if err := n.disk.CutPower(); err != nil {
		j.t.Fatal(err)
	}
	n.Kill()
	n.disk.Restore()
	j.killed = n
}

func (j *judged) Start() {
	j.restart(j.killed)
	j.healthy()
}

func (j *judged) Restart() {
	n := j.leader()
	n.Stop()
	j.restart(n)
	j.healthy()
}

// Restore has a node that follows copy everything from another one.
func (j *judged) Restore() {
	n := j.others(j.leader())[0]
	n.Kill()
	n.wipe()
	j.others(n)[0].expel(n.name)
	j.restart(n)
	j.healthy()
}

// TestJudge: the downsamples of a cluster have what the documents promise, whatever is done to
// them and whichever node leads.
func TestJudge(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	c := start(t, setup{nodes: 3, diskMiB: 128, env: append([]string{steady, "TSDBD_RETENTION_CHECK_INTERVAL=100ms"}, small...)})
	judge.Run(t, &judged{cluster: c}, judge.Options{Seed: seed, Steps: *judgeSteps, Asks: 8})
	c.verify()
	c.stop()
}
