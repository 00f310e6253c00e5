package cluster

import (
	"testing"
	"time"
)

// TestLagUnknown: a node that has not found a leader since its start says how long that
// is, no figure from nowhere.
func TestLagUnknown(t *testing.T) {
	g := three(t)
	for _, name := range g.join {
		g.servers[name].stop()
	}
	begin := time.Now()
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
