package apptest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// launchNodes starts a cluster of three nodes, which serve when it returns.
func launchNodes(t testing.TB, env []string) (nodes []*Server) {
	t.Helper()
	var join []string
	for i := range 3 {
		join = append(join, fmt.Sprintf("n%d=%s", i+1, FreeAddress(t)))
	}
	for _, one := range join {
		name, bind, _ := strings.Cut(one, "=")
		s := New(t, "-cluster-node", name, "-cluster-bind", bind, "-cluster-join", strings.Join(join, ","))
		s.Env = env
		s.Begin()
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		if err := s.Await(); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// StartFollower starts a cluster of three nodes and returns one that follows.
func StartFollower(t testing.TB, env ...string) *Server {
	t.Helper()
	// The leader stays the leader on a slow machine.
	nodes := launchNodes(t, append([]string{"TSDBD_CLUSTER_ELECTION_TIMEOUT=5s"}, env...))
	var at, message string
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var follower *Server
		well := 0
		for _, s := range nodes {
			status, body, err := s.Do(context.Background(), http.MethodGet, "/health", nil, "")
			if err != nil || status != http.StatusOK {
				at, message = s.URL, fmt.Sprint(status, body, err)
				continue
			}
			well++
			if strings.Contains(body, " follows ") {
				follower = s
			}
		}
		if well == len(nodes) && follower != nil {
			return follower
		}
	}
	t.Fatalf("the cluster does not become healthy: %s: %s", at, message)
	return nil
}

// ReadOwnWrites returns a client of any node that reads its own writes.
func ReadOwnWrites(rt http.RoundTripper) http.RoundTripper { return &sticky{RoundTripper: rt} }

// sticky sends back the position of what it has read and written.
type sticky struct {
	http.RoundTripper
	position atomic.Uint64
}

// RoundTrip sends a request with the largest position of the answers so far.
func (s *sticky) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Tsdbd-Position", strconv.FormatUint(s.position.Load(), 10))
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		// Requests of one test follow each other.
		at, _ := strconv.ParseUint(resp.Header.Get("X-Tsdbd-Position"), 10, 64)
		s.position.Store(max(at, s.position.Load()))
	}
	return resp, err
}
