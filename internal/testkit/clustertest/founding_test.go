//go:build linux

package clustertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
)

// TestFounding kills nodes while they found a cluster, at any moment, and starts them
// again. Then it writes from the first moment on that a node takes a write, and loses the
// disks of as many nodes as may fail, the founder's among them: all that was acknowledged
// is on the others.
func TestFounding(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 2))
	c := prepare(t, setup{nodes: *size, env: small})
	for _, n := range c.nodes {
		n.Begin()
	}
	var killing sync.WaitGroup
	for _, n := range c.nodes {
		random := rand.New(rand.NewPCG(seed, r.Uint64()))
		killing.Go(func() {
			for range 3 {
				time.Sleep(time.Duration(random.Int64N(int64(time.Second)))) // anywhere in the founding
				n.Kill()
				n.Begin()
			}
		})
	}
	killing.Wait()
	for _, n := range c.nodes {
		if err := n.Await(); err != nil {
			c.fatalf("%s: %v", n.name, err)
		}
	}
	founder := c.nodes[0]
	founder.must("", "CREATE DATABASE db")
	for i := range 20 {
		founder.write("db", fmt.Sprintf("m v=%di %d", i, i+1))
	}
	lost := c.nodes[:c.mayFail()]
	for _, n := range lost {
		n.Kill()
		n.wipe()
	}
	rest := c.others(lost...)
	for i, n := range rest {
		n.write("db", fmt.Sprintf("m v=0i %d", 100+i))
	}
	want := int64(20 + len(rest))
	for _, n := range rest {
		c.await("all points", func() error {
			got, err := n.count("db", "SELECT count(v) FROM m", 0)
			if err == nil && got != want {
				err = fmt.Errorf("%d at %s, want %d", got, n.name, want)
			}
			return err
		})
	}
	for _, n := range lost {
		rest[0].expel(n.name)
		c.restart(n)
	}
	c.healthy()
	c.verify()
	c.stop()
}
