package cluster

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/replica"
	"tsdbd/internal/testkit/faulty"
)

// TestFinishUpgrade: programs that read a newer form of the log hold it back until an
// administrator finishes the upgrade, which needs every member to read it. From then on a
// program that does not is refused.
func TestFinishUpgrade(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.write("n1", "d", 0, 10)
	newest := func(name string) (format byte) {
		n, _ := g.servers[name].now()
		last, err := n.log.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		for index := n.log.Base().Index + 1; index <= last; index++ {
			var l raft.Log
			if n.log.GetLog(index, &l) == nil && l.Type == raft.LogCommand {
				format = max(format, l.Data[0])
			}
		}
		return format
	}
	finished := func(want byte) {
		t.Helper()
		var answer struct{ Format byte }
		if status, text := g.answered("n2", "POST finish-upgrade", &answer); status != http.StatusOK || answer.Format != want {
			t.Fatalf("%d %s, format %d, want %d", status, text, answer.Format, want)
		}
		for _, name := range g.join {
			g.write(name, "d", 0, 10)
		}
		g.equal(g.join...)
		for _, name := range g.join {
			if got := newest(name); got != want {
				t.Errorf("the log of %s has format %d, want %d", name, got, want)
			}
		}
	}
	newer := func(o *Options) { o.LogFormat = replica.Format + 1 }
	for i, name := range g.join {
		finished(replica.Format) // someone does not read the newer one
		g.servers[name].stop()
		if i == 1 {
			if status, text := g.answered("n1", "POST finish-upgrade", nil); status != http.StatusConflict || !strings.Contains(text, "n2 cannot be reached") {
				t.Errorf("with a node down: %d %s", status, text)
			}
		}
		g.servers[name].options = newer
		g.start(name)
		g.voters("n1", "n2", "n3")
	}
	g.write("n1", "d", 10, 10)
	g.equal(g.join...)
	if got := newest("n1"); got != replica.Format {
		t.Errorf("the log has format %d before the upgrade is finished", got)
	}
	finished(replica.Format + 1)
	// All restart, and another program joins in vain.
	for _, name := range g.join {
		g.servers[name].stop()
	}
	g.start(g.join...)
	g.voters("n1", "n2", "n3")
	g.write("n3", "d", 20, 10)
	g.equal(g.join...)
	g.start("n4")
	g.servers["n4"].refused("start it with the program of the other nodes")
}

// TestLostLeader asks a node that does not reach its leader any more, and does not know it yet:
// the request may be repeated.
func TestLostLeader(t *testing.T) {
	g := three(t)
	leader := g.leader()
	other := g.join[0]
	if other == leader.name {
		other = g.join[1]
	}
	g.net.Link(other, leader.name).Set(faulty.Faults{ResetAfter: 1})
	g.net.Reset(other, leader.name)
	for range 20 {
		if status, text := g.operate(other, "POST finish-upgrade", nil); status == http.StatusInternalServerError {
			t.Fatalf("%d %s", status, text)
		}
	}
}
