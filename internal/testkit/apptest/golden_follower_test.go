package apptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/cluster/admin"
)

// TestGoldenAtAFollower replays every recorded theme against a node that follows: the
// answers are those of a single node, also in a cluster.
func TestGoldenAtAFollower(t *testing.T) {
	t.Parallel()
	var join []string
	for i := range 3 {
		join = append(join, fmt.Sprintf("n%d=%s", i+1, FreeAddress(t)))
	}
	var nodes []*Server
	for _, one := range join {
		name, bind, _ := strings.Cut(one, "=")
		s := New(t, "-cluster-node", name, "-cluster-bind", bind, "-cluster-join", strings.Join(join, ","))
		s.Begin()
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		if err := s.Await(); err != nil {
			t.Fatal(err)
		}
	}
	var follower *Server
	for deadline := time.Now().Add(2 * time.Minute); follower == nil; time.Sleep(10 * time.Millisecond) {
		for _, s := range nodes {
			if role, voters := statusOfNode(t, s); role == admin.RoleFollower && voters == len(nodes) {
				follower = s
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no cluster of three voters")
		}
	}
	follower.Through(func(rt http.RoundTripper) http.RoundTripper { return &sticky{RoundTripper: rt} })
	ReplayGolden(t, follower, nil, nil)
	if role, _ := statusOfNode(t, follower); role != admin.RoleFollower {
		t.Errorf("the node that was asked is now %s: the test has shown nothing", role)
	}
}

// statusOfNode returns what a node does, and how many nodes vote.
func statusOfNode(t *testing.T, s *Server) (role string, voters int) {
	t.Helper()
	code, body, err := s.Do(t.Context(), http.MethodGet, admin.Prefix+"status", url.Values{}, "")
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d %s %v", code, body, err)
	}
	var status admin.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	for _, m := range status.Members {
		if m.Voter && m.Reachable {
			voters++
		}
	}
	return status.Role, voters
}

// sticky is a client that reads its own writes on every node.
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
