package cluster

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/cluster/admin"
)

// TestLagUnknown: a node that has not found a leader since its start says how long ago
// the last entry was taken that it has, no figure from nowhere.
func TestLagUnknown(t *testing.T) {
	begin := time.Now()
	g := three(t)
	for _, name := range g.join {
		g.servers[name].stop()
	}
	g.start("n3")
	g.await("n3 is open", func() bool { n, _ := g.servers["n3"].now(); return n != nil })
	n, _ := g.servers["n3"].now()
	s := n.Status()
	if n.replica.Ready() {
		t.Fatal("a node alone has caught up")
	}
	for _, m := range s.Members {
		if m.LagSeconds > time.Since(begin).Seconds() {
			t.Errorf("%+v", m)
		}
	}
	if s.LagSeconds > time.Since(begin).Seconds() || s.LagSeconds <= 0 {
		t.Errorf("%v s behind", s.LagSeconds)
	}
}

// TestHealthOfElection: while there is no leader, nodes stay healthy as long as what they
// have is not old, so that a load balancer does not take all away.
func TestHealthOfElection(t *testing.T) {
	g := three(t, func(o *Options) { o.MaxLag = time.Hour })
	g.servers["n1"].stop()
	g.servers["n2"].stop()
	n3, _ := g.servers["n3"].now()
	g.await("n3 knows no leader", func() bool { return n3.role() == admin.RoleCandidate })
	if ok, text := n3.Health(); !ok || !strings.Contains(text, "n3 knows no leader") || !strings.Contains(text, "queries are answered") {
		t.Errorf("health without a leader: %t, %s", ok, text)
	}
	s := n3.Status()
	for _, problem := range []string{"no leader is known", "n1: not reachable", "n2: not reachable"} {
		if !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, problem) }) {
			t.Errorf("problems %q, without %q", s.Problems, problem)
		}
	}
	if got := s.Degraded(); !slices.Equal(got, s.Problems) {
		t.Errorf("degraded by %q, problems %q", got, s.Problems)
	}
}

// TestNewIDs: who has lost its log is not called unreachable, and a majority that is gone
// is named.
func TestNewIDs(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	for _, name := range []string{"n2", "n3"} {
		g.servers[name].stop()
		g.servers[name].damageLog()
	}
	g.start("n2", "n3")
	g.problem("n1", "n2", "it has given up its id and is to join again as n2/")
	g.problem("n1", "n3", "it has given up its id and is to join again as n3/")
	n1, _ := g.servers["n1"].now()
	g.await("n1 names the way out", func() bool {
		return slices.ContainsFunc(n1.Status().Problems, func(p string) bool {
			return strings.Contains(p, "Of 3 voters 2 have lost their logs") && strings.Contains(p, "cluster leave")
		})
	})
	g.await("and so does its health", func() bool {
		_, text := n1.Health()
		return strings.Contains(text, "n2: it has given up its id")
	})
}

// TestFewVoters: an even number of voters is noted, and so is one that has copies. Both are no
// problem. The last vote cannot be taken.
func TestFewVoters(t *testing.T) {
	g := newGroup(t, "n1", "n2")
	g.start("n1", "n2")
	g.voters("n1", "n2")
	n, _ := g.servers["n1"].now()
	noted := func(note string) {
		t.Helper()
		g.await("the status is well, with a note", func() bool {
			s := n.Status()
			return len(s.Degraded()) == 0 && len(s.Notes) == 1 && strings.Contains(s.Notes[0], note)
		})
	}
	noted("2 voters bear no more losses than 1")
	g.done("n1", "POST transfer-leader?name=n1")
	g.done("n1", "POST add?name=n2&voter=false")
	g.voters("n1")
	noted("1 voter bears no losses: add two voters")
	if status, text := g.answered("n1", "POST add?name=n1&voter=false", nil); status != http.StatusConflict || !strings.Contains(text, "n1 is the last voter, which must stay") {
		t.Errorf("the last vote: %d %s", status, text)
	}
}

func TestProblemOf(t *testing.T) {
	n := &Node{opt: Options{MaxLag: time.Second}}
	f := func(want string, p peerStatus) {
		t.Helper()
		if got := n.problemOf(&p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f("", peerStatus{Ready: true, Leads: true})
	f("disk full", peerStatus{Ready: true, Refuses: "disk full"})
	f("disk full; its data has damage: a file; it leads because no better voter can take over", peerStatus{Ready: true, Leads: true, Refuses: "disk full", Damage: "a file"})
	f("its clock is wrong", peerStatus{Ready: true, Clock: "its clock is wrong"})
	f("it has not caught up with the leader since its start", peerStatus{Lag: 3})
	f("it is 3.0 s behind", peerStatus{Ready: true, Lag: 3})
}
