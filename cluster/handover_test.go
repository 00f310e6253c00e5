package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/store"
)

// harmed is a cluster whose nodes have damage as the test says, in files.
func harmed(t *testing.T, names ...string) (*group, map[string]*atomic.Int64) {
	g := newGroup(t, names...)
	files := map[string]*atomic.Int64{}
	for _, name := range names {
		files[name] = new(atomic.Int64)
		g.server(name).options = func(o *Options) {
			o.ElectionTimeout = 1500 * time.Millisecond // a node has twice this time to say how it is
			o.damage = func(*store.Store) damage {
				if k := int(files[name].Load()); k > 0 {
					return damage{k, fmt.Sprintf("%d files are in quarantine", k)}
				}
				return damage{}
			}
		}
	}
	g.start(names...)
	g.voters(names...)
	return g, files
}

// leads waits until one of the servers leads.
func (g *group) leads(name string) {
	g.t.Helper()
	g.await(name+" leads", func() bool { n, _ := g.servers[name].now(); return n != nil && n.Leads() })
}

// problem waits until a server says of a member that it has a problem.
func (g *group) problem(at, of, want string) {
	g.t.Helper()
	g.await(fmt.Sprintf("%s says of %s: %s", at, of, want), func() bool {
		n, _ := g.servers[at].now()
		if n == nil {
			return false
		}
		for _, m := range n.Status().Members {
			if m.Name == of && strings.Contains(m.Problem, want) {
				return true
			}
		}
		return false
	})
}

// TestDamagedNodeLeads: a node with damage takes no write while a sound voter can be
// reached, also if it is elected. Among damaged ones that with the least leads.
func TestDamagedNodeLeads(t *testing.T) {
	g, files := harmed(t, "n1", "n2", "n3")
	g.create("n1", "d")
	g.done("n1", "POST transfer-leader?name=n1")
	files["n2"].Store(1)
	if status, text := g.answered("n1", "POST transfer-leader?name=n2", nil); status != http.StatusConflict || !strings.Contains(text, "1 files are in quarantine") {
		t.Errorf("the lead for a damaged node: %d %s", status, text)
	}
	g.problem("n3", "n2", "1 files are in quarantine")
	// An election asks nobody.
	n2, _ := g.servers["n2"].now()
	epochs := n2.replica.Stats().Epochs
	for range 3 {
		n, _ := g.leader().now()
		if err := n.replica.TransferLeadership(t.Context(), raft.ServerID(n2.identity().ID)); err != nil {
			t.Logf("elect n2: %v", err)
		}
		g.write("n2", "d", 0, 10)
	}
	if now := n2.replica.Stats().Epochs; now != epochs {
		t.Errorf("the damaged node has taken writes %d times", now-epochs)
	}
	g.log.Lock()
	if !strings.Contains(g.log.String(), "this node was elected and is not to lead") {
		t.Error("the damaged node was never elected: the test shows nothing")
	}
	g.log.Unlock()
	// Without a sound one, the one with less damage leads.
	files["n3"].Store(2)
	g.servers["n1"].stop()
	g.leads("n2")
	g.write("n3", "d", 10, 10)
	g.problem("n3", "n2", "it leads because no better voter can take over")
	// And hands over to a sound one.
	g.start("n1")
	g.leads("n1")
	g.write("n2", "d", 20, 10)
	g.equal("n1", "n2", "n3")
}

// TestDamagedAlone: the only node of a cluster leads whatever it has.
func TestDamagedAlone(t *testing.T) {
	g, files := harmed(t, "n1")
	files["n1"].Store(3)
	g.servers["n1"].stop()
	g.start("n1")
	g.create("n1", "d")
	g.write("n1", "d", 0, 10)
	g.problem("n1", "n1", "it leads because no better voter can take over")
}
