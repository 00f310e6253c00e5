//go:build linux

package clustertest

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
)

var (
	chaosRounds  = flag.Int("chaos-rounds", 3, "rounds of TestChaos")
	chaosFaults  = flag.String("chaos-faults", "", "faults of TestChaos whose names contain this, in turn; empty: drawn")
	chaosLongest = flag.Duration("chaos-longest", 2*time.Second, "how long a fault of TestChaos lasts at most")
)

// TestChaos lets a fault happen in each round, under workers that write, overwrite,
// delete, and make and drop series, fields and databases through all nodes. After each
// round all nodes are healthy again. Then every node has what was acknowledged, each
// request without an answer as a whole or not at all, and nothing else, and the sums
// of their contents are the same.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	t.Logf("seed %d", seed)
	c := start(t, setup{nodes: *size, proxies: true, diskMiB: 256, seed: seed, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.nodes[0].must("", "CREATE RETENTION POLICY tier ON db DURATION INF REPLICATION 1")
	c.nodes[0].must("db", "CREATE DOWNSAMPLE ON db FROM autogen INTO tier EVERY 1h AS count")
	r := rand.New(rand.NewPCG(seed, 0))
	g := &trouble{cluster: c, r: r, shortest: *chaosLongest / 5, longest: *chaosLongest}
	possible := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return f.disk && c.nodes[0].disk == nil || !strings.Contains(f.name, *chaosFaults)
	})
	var past []*settled
	requests, unanswered, refused, open := 0, 0, 0, 0
	reasons := map[string]int{}
	for round := range *chaosRounds {
		f := possible[round%len(possible)]
		if *chaosFaults == "" {
			f = possible[r.IntN(len(possible))]
		}
		began := time.Now()
		ws := work(c, seed, round, 6)
		ws.advance(c, 3)
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		f.run(g)
		over := time.Now()
		c.await("a healthy cluster", func() error {
			c.resume()
			return c.unhealthy()
		})
		healed := time.Since(over)
		ws.advance(c, 3)
		ws.stop(c)
		c.healthy()
		cells := 0
		for _, w := range ws.all {
			for _, n := range c.nodes {
				if err := w.check(n); err != nil {
					c.fatalf("round %d, %s: %v", round, f.name, err)
				}
			}
			requests, unanswered, refused, open = requests+w.acked, unanswered+w.unanswered, refused+w.refused, open+len(w.maybe)
			cells += len(w.sure)
			for reason, n := range w.reasons {
				reasons[reason] += n
			}
			past = append(past, w.settle())
		}
		old := past[r.IntN(len(past))]
		for _, n := range c.nodes {
			if err := old.check(n); err != nil {
				c.fatalf("round %d, %s: %v", round, f.name, err)
			}
		}
		c.verify()  // which also reads what nobody has read since it was damaged
		c.healthy() // and fetched
		t.Logf("round %d: %s, %d cells, healthy after %v, took %v", round, f.name, cells, healed.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
	for _, s := range past {
		for _, n := range c.nodes {
			if err := s.check(n); err != nil {
				c.fatalf("in the end: %v", err)
			}
		}
	}
	ended := 0
	for _, n := range c.nodes {
		ended += n.restarted
	}
	c.stop()
	rounds := figure.Count{N: *chaosRounds, Of: "rounds"}
	switch *chaosFaults {
	case "":
		figure.Report(t, "all faults of three nodes: kills, stops, power cuts, full and hanging disks, cuts of the network, old copies of directories, damaged files, wrong clocks", rounds)
	case "damage":
		figure.Report(t, "damage of each kind of file of a node, in turn", rounds)
	}
	t.Logf("%d requests acknowledged, %d attempts refused, %d without an answer, %d requests open in the end; nodes ended by themselves %d times; reasons %v",
		requests, refused, unanswered, open, ended, reasons)
}
