//go:build linux

package clustertest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/testkit/load"
	"tsdbd/internal/testkit/testseed"
)

var (
	rejoinRows  = flag.Int("rejoin-rows", 50_000, "rows of TestRejoin")
	rejoinKills = flag.Int("rejoin-kills", 2, "times that TestRejoin kills the node that comes back")
)

// fillDevops writes rows of the devops workload through all nodes.
func (c *cluster) fillDevops(rows int) {
	c.t.Helper()
	g := load.NewDevops(load.DevopsHosts, (rows+load.DevopsHosts-1)/load.DevopsHosts)
	bodies := make(chan []byte)
	var writers sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range 4 {
		writers.Go(func() {
			for b := range bodies {
				if err := c.insist("db", i, string(b)); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	for {
		b, n := g.Next(nil, 5000)
		if n == 0 {
			break
		}
		bodies <- b
	}
	close(bodies)
	writers.Wait()
	if err := failed.Load(); err != nil {
		c.fatalf("load: %v", *err)
	}
}

// insist writes a body at one node or the next, until it is stored.
func (c *cluster) insist(db string, at int, body string) error {
	for begin := time.Now(); ; at++ {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		a, err := c.nodes[at%len(c.nodes)].post(ctx, db, body)
		cancel()
		switch {
		case err == nil && a.status == http.StatusNoContent:
			return nil
		case err == nil && a.status != http.StatusServiceUnavailable:
			return fmt.Errorf("%d %.300s", a.status, a.body)
		case time.Since(begin) > patience:
			return fmt.Errorf("not in %v: %d %.300s %w", patience, a.status, a.body, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestRejoin loses the disk of a node for good: it is removed, and a node of the same
// name starts with an empty directory, under load, and is killed again and again
// meanwhile. It becomes a voter with the same content.
func TestRejoin(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	c := start(t, setup{nodes: *size, env: []string{"TSDBD_CLUSTER_LOG_MAX_SIZE=4MiB", "TSDBD_DATA_FLUSH_IDLE=1s"}})
	c.nodes[0].must("", "CREATE DATABASE db")
	began := time.Now()
	c.fillDevops(*rejoinRows)
	c.healthy()
	loaded := time.Since(began)
	lost := c.follower()
	ws := work(&cluster{t: t, nodes: c.others(lost), http: c.http}, seed, 0, 3)
	ws.advance(c, 3)
	lost.Kill()
	lost.wipe()
	c.others(lost)[0].expel(lost.name)
	began = time.Now()
	for kill := range *rejoinKills {
		lost.Begin()
		// The transfer of much data takes longer.
		time.Sleep(time.Duration(r.Int64N(int64(500*time.Millisecond) + int64(*rejoinRows)*300)))
		if lost.Ended() {
			c.fatalf("kill %d: %s has ended by itself", kill, lost.name)
		}
		lost.Kill()
	}
	last := time.Now()
	lost.Begin()
	if err := lost.Await(); err != nil {
		c.fatalf("%v", err)
	}
	c.healthy()
	back := time.Since(last)
	ws.advance(c, 3)
	ws.stop(c)
	c.healthy()
	for _, n := range c.nodes {
		if rows, err := n.count("db", "SELECT count(usage_user) FROM cpu", 0); err != nil || rows < int64(*rejoinRows) {
			t.Errorf("%s has %d rows, want %d: %v", n.name, rows, *rejoinRows, err)
		}
		for _, w := range ws.all {
			if err := w.check(n); err != nil {
				c.fatalf("%v", err)
			}
		}
	}
	c.verify()
	// It counts: with one of the others down, writes need its vote.
	other := c.others(lost, c.leader())
	other = append(other, c.others(lost)...)
	other[0].Kill()
	lost.write("db", "after v=1i 1")
	c.restart(other[0])
	c.healthy()
	c.verify()
	c.stop()
	t.Logf("%d rows loaded in %v; killed %d times; a voter with all of it %v after its last start, %v after it was removed",
		*rejoinRows, loaded.Round(time.Millisecond), *rejoinKills, back.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// command runs a command of the binary.
func command(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(apptest.Binary(t), args...).CombinedOutput()
	return string(out), err
}

// TestOneThreeOne makes a cluster of a server with data, and a server of the cluster.
func TestOneThreeOne(t *testing.T) {
	t.Parallel()
	c := prepare(t, setup{nodes: 3, env: small})
	one := c.nodes[0]
	args := one.Args
	one.Args = nil
	one.Restart()
	one.must("", "CREATE DATABASE db; CREATE USER paul WITH PASSWORD 'secret'; CREATE CONTINUOUS QUERY cq ON db BEGIN SELECT count(v) INTO counts FROM m GROUP BY time(1h) END")
	for i := range 20 {
		one.write("db", fmt.Sprintf("m,s=%d v=%di %d\nm,s=%d v=%di %d", i, i, i, i, i, i+1_000_000))
	}
	one.must("db", "DELETE FROM m WHERE s = '3'")
	check := func(n *node, want int64) {
		t.Helper()
		if got, err := n.count("db", "SELECT count(v) FROM m", 0); err != nil || got != want {
			t.Errorf("%s has %d points, want %d: %v", n.name, got, want, err)
		}
		if a, err := n.query(context.Background(), "db", "SHOW USERS; SHOW CONTINUOUS QUERIES"); err != nil || !strings.Contains(a.body, "paul") || !strings.Contains(a.body, "cq") {
			t.Errorf("users and continuous queries at %s: %s %v", n.name, a.body, err)
		}
	}
	check(one, 38)
	one.Stop()
	one.Args = args
	c.restart(c.nodes...)
	c.healthy()
	for _, n := range c.nodes {
		check(n, 38)
	}
	c.verify()
	c.nodes[2].write("db", "m,s=99 v=1i 1\nm,s=3 v=1i 5")
	c.healthy()
	for _, n := range c.nodes {
		check(n, 40)
	}
	// The directory of a node is not that of a server of its own.
	c.stop()
	one.Args = nil
	one.Begin()
	if err := one.Await(); err == nil {
		c.fatalf("a server of its own started in the directory of a node")
	} else if !strings.Contains(err.Error(), "cluster") {
		t.Errorf("the refusal of a node's directory does not say what it is: %v", err)
	}
	one.Args = args
	c.restart(c.nodes...)
	c.healthy()
	// Back to one.
	for _, n := range c.others(one) {
		one.expel(n.name)
		c.remove(n)
	}
	one.write("db", "m,s=100 v=1i 1")
	one.Stop()
	if out, err := command(t, "cluster", "leave", "-data", one.Dir); err != nil {
		c.fatalf("tsdbd cluster leave: %v\n%s", err, out)
	}
	one.Args = nil
	one.Restart()
	check(one, 41)
	one.write("db", "m,s=101 v=1i 1")
	one.Kill()
	one.Restart()
	check(one, 42)
	one.Stop()
}
