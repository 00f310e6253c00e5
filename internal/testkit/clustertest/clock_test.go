//go:build linux

package clustertest

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// jump sets the clock of a node, restarts it if asked to, and sets the clock back after a
// while. As long as it is wrong, another node leads, and points without a time get the right
// one through every node.
func (g *trouble) jump(n *node, ahead time.Duration, restart bool) {
	g.t.Helper()
	if restart {
		n.Kill()
		n.Begin()
	}
	if err := n.SetClock(ahead); err != nil {
		g.t.Fatal(err)
	}
	if restart {
		if err := n.Await(); err != nil {
			g.t.Fatalf("%s with a wrong clock: %v", n.name, err)
		}
	}
	g.await("the node with the wrong clock follows, and says so", func() error {
		s, err := n.status()
		if err != nil {
			return err
		}
		if said := health(n); s.Leader == "" || s.Leader == n.name || !strings.Contains(said, "that of most voters: set it (NTP)") {
			return fmt.Errorf("%s leads, %s says %s", s.Leader, n.name, said)
		}
		return nil
	})
	for i, at := range g.nodes {
		g.stamps++
		name := fmt.Sprintf("stamp%d", g.stamps)
		before := time.Now().Add(-skew)
		position := at.write("db", name+" v=1i")
		reader := g.nodes[(i+1)%len(g.nodes)]
		g.await("a point with the right time", func() error {
			got, err := reader.count("db", fmt.Sprintf("SELECT count(v) FROM %s WHERE time > %d AND time < %d", name, before.UnixNano(), time.Now().Add(skew).UnixNano()), position)
			if err == nil && got == 0 {
				a, _ := reader.query(context.Background(), "db", "SELECT * FROM "+name)
				g.fatalf("a point written through %s while the clock of %s is wrong: %s", at.name, n.name, a.body)
			}
			return err
		})
	}
	g.hold()
	if err := n.SetClock(0); err != nil {
		g.t.Fatal(err)
	}
}

// skew is the default of cluster.max-clock-skew.
const skew = time.Minute
