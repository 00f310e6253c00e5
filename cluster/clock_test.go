package cluster

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// skewed is a cluster whose nodes have clocks that the test sets.
func skewed(t *testing.T, names ...string) (*group, map[string]*atomic.Int64) {
	g := newGroup(t, names...)
	ahead := map[string]*atomic.Int64{}
	for _, name := range names {
		ahead[name] = new(atomic.Int64)
		g.server(name).options = func(o *Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead[name].Load())) }
		}
	}
	g.start(names...)
	g.voters(names...)
	g.create("n1", "d")
	g.done("n1", "POST transfer-leader?name=n1")
	return g, ahead
}

// told waits until the health of a server has a text. It is healthy.
func (g *group) told(name, want string) {
	g.t.Helper()
	g.await(name+" says of itself: "+want, func() bool {
		n, _ := g.servers[name].now()
		if n == nil {
			return false
		}
		ok, text := n.Health()
		return ok && strings.Contains(text, want)
	})
}

// keptLead checks that no leader has handed its lead over by itself.
func (g *group) keptLead() {
	g.t.Helper()
	g.log.Lock()
	defer g.log.Unlock()
	if strings.Contains(g.log.String(), "the leader hands the lead over") {
		g.t.Error("a leader has handed its lead over")
	}
}

// TestClockOfLeader sets the clock of a leader while it leads.
func TestClockOfLeader(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "since 1970": -time.Since(time.Unix(0, 0))} {
		t.Run(name, func(t *testing.T) {
			g, clocks := skewed(t, "n1", "n2", "n3")
			clocks["n1"].Store(int64(by))
			g.await("another node leads", func() bool { n, _ := g.servers["n1"].now(); return !n.Leads() && g.leader().name != "n1" })
			want := "that of most voters: set it (NTP)"
			g.problem("n2", "n1", want)
			g.problem("n1", "n1", want)
			g.told("n1", want)
			for _, name := range g.join {
				g.write(name, "d", 0, 10)
			}
			if status, text := g.answered("n2", "POST transfer-leader?name=n1", nil); status != http.StatusConflict || !strings.Contains(text, want) {
				t.Errorf("the lead for a node with a wrong clock: %d %s", status, text)
			}
			g.log.Lock()
			if text := g.log.String(); !strings.Contains(text, "the clocks of the nodes differ") || !strings.Contains(text, "the leader hands the lead over") {
				t.Error("the log does not say it")
			}
			g.log.Unlock()
			clocks["n1"].Store(0)
			g.done("n2", "POST transfer-leader?name=n1")
			g.leads("n1")
			g.equal("n1", "n2", "n3")
		})
	}
}

// TestClockOfFollower: a follower with a wrong clock takes part, also after a restart, and
// so does one that restarts while the leader cannot know whose clock is wrong.
func TestClockOfFollower(t *testing.T) {
	g, clocks := skewed(t, "n1", "n2", "n3")
	clocks["n3"].Store(int64(-time.Hour))
	const want = "its clock is 1h0m0s behind that of most voters"
	g.problem("n1", "n3", want)
	g.servers["n3"].stop()
	g.write("n1", "d", 0, 10)
	g.start("n3")
	g.voters("n1", "n2", "n3")
	g.told("n3", want)
	g.write("n3", "d", 10, 10)
	g.equal("n1", "n2", "n3")
	g.keptLead()
}

// TestTwoClocks: two nodes cannot tell whose clock is right. They say so and go on.
func TestTwoClocks(t *testing.T) {
	g, clocks := skewed(t, "n1", "n2")
	clocks["n1"].Store(int64(time.Hour))
	g.told("n1", "its clock is 1h0m0s ahead of that of n2, and no majority tells")
	g.told("n2", "its clock is 1h0m0s behind that of n1, and no majority tells")
	g.servers["n2"].stop()
	g.start("n2")
	g.voters("n1", "n2")
	g.write("n2", "d", 0, 10)
	g.equal("n1", "n2")
	g.keptLead()
}
