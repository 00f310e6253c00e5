package apptest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"tsdbd/cluster/admin"
)

// startNodes starts a cluster of three nodes, and waits until all of them vote.
func startNodes(t *testing.T, env ...string) (nodes []*Server) {
	t.Helper()
	nodes = launchNodes(t, env)
	awaitVoters(t, nodes)
	return nodes
}

// awaitVoters waits until all nodes see each other vote, and one of them lead.
func awaitVoters(t *testing.T, nodes []*Server) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		well := 0
		for _, s := range nodes {
			if role, voters := statusOfNode(t, s); (role == admin.RoleFollower || role == admin.RoleLeader) && voters == len(nodes) {
				well++
			}
		}
		if well == len(nodes) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not all nodes vote")
		}
	}
}

// statusOfNode returns what a node does, "" if it does not answer, and how many nodes
// vote.
func statusOfNode(t *testing.T, s *Server) (role string, voters int) {
	t.Helper()
	code, body, err := s.Do(t.Context(), http.MethodGet, admin.Prefix+"status", url.Values{}, "")
	if err != nil || code != http.StatusOK {
		return "", 0
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
