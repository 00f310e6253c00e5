package apptest

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"tsdbd/cluster/admin"
)

// TestGoldenAtAFollower replays every recorded theme against a node that follows: the
// answers are those of a single node, also in a cluster.
func TestGoldenAtAFollower(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t)
	var follower *Server
	for _, s := range nodes {
		if role, _ := statusOfNode(t, s); role == admin.RoleFollower {
			follower = s
		}
	}
	follower.Through(func(rt http.RoundTripper) http.RoundTripper { return &sticky{RoundTripper: rt} })
	ReplayGolden(t, follower, nil)
	if role, _ := statusOfNode(t, follower); role != admin.RoleFollower {
		t.Errorf("the node that was asked is now %s: the test has shown nothing", role)
	}
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
