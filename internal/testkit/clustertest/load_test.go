//go:build linux

package clustertest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/testkit/faulty"
)

var (
	leakRounds = flag.Int("leak-rounds", 2, "rounds of TestNoLeaks")
	behindMiB  = flag.Int("behind-mib", 4, "MiB of log that TestFollowerFarBehind writes while a node is down")
	slowTime   = flag.Duration("slow-time", 0, "how long TestSlowFollower measures each rate; with 5s and more it holds them against each other")
)

// TestNoLeaks: nodes whose peers come and go, and which lead in turn, end with as many
// goroutines and open files as they began with.
func TestNoLeaks(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, proxies: true, env: []string{"TSDBD_HTTP_PPROF_ENABLED=true"}})
	c.nodes[0].must("", "CREATE DATABASE db")
	steady := func() (counts [2]int) {
		for _, n := range c.nodes {
			n.write("db", "m v=1i 1")
		}
		n := c.nodes[0]
		counts[0] = n.goroutines()
		counts[1] = n.files()
		return counts
	}
	churn := func() {
		for _, peer := range c.nodes[1:] {
			c.nodes[0].write("db", "m v=1i 1")
			peer.Kill()
			c.restart(peer)
			c.healthy()
		}
		c.network.Partition(c.nodes[1].name)
		c.nodes[0].write("db", "m v=2i 1")
		c.network.HealAll()
		c.healthy()
		for _, n := range []*node{c.nodes[1], c.nodes[0]} {
			c.nodes[0].administer("transfer-leader", url.Values{"name": {n.name}}, nil)
			c.healthy()
		}
		c.verify()
	}
	churn() // what is opened once is open
	before := steady()
	for range *leakRounds {
		churn()
	}
	// What ends by a timeout is still there for a while.
	after := before
	c.await("as many goroutines and files as before", func() error {
		after = steady()
		if after[0] > before[0]+5 || after[1] > before[1]+5 {
			return fmt.Errorf("%d goroutines and %d files, %d and %d before", after[0], after[1], before[0], before[1])
		}
		return nil
	})
	t.Logf("%d rounds: %d goroutines and %d files before, %d and %d after", *leakRounds, before[0], before[1], after[0], after[1])
	c.stop()
}

// goroutines returns how many goroutines a node has.
func (n *node) goroutines() (count int) {
	n.c.t.Helper()
	n.c.http.CloseIdleConnections()
	n.c.await("the number of goroutines", func() error {
		a, err := n.ask(context.Background(), http.MethodGet, "/debug/pprof/goroutine", url.Values{"debug": {"1"}}, "", 0)
		if err != nil {
			return err
		}
		_, rest, ok := strings.Cut(a.body, "goroutine profile: total ")
		line, _, _ := strings.Cut(rest, "\n")
		if !ok {
			return fmt.Errorf("%d %.300s", a.status, a.body)
		}
		count, err = strconv.Atoi(strings.TrimSpace(line))
		return err
	})
	return count
}

// files returns how many files and sockets a node has open.
func (n *node) files() int {
	n.c.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.Pid()))
	if err != nil {
		n.c.t.Fatal(err)
	}
	return len(files)
}

// TestFollowerFarBehind keeps a node down while the others write much more than the
// log may hold: their memory and their logs stay small, and the node comes back by
// copying the data.
func TestFollowerFarBehind(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: []string{
		"TSDBD_CLUSTER_LOG_MAX_SIZE=1MiB", "TSDBD_DATA_FLUSH_SIZE=1MiB", "TSDBD_DATA_CACHE_MAX_MEMORY=16MiB", "TSDBD_DATA_FLUSH_IDLE=200ms",
	}})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.nodes[0].write("db", "m v=1i 1")
	c.healthy()
	behind := c.follower()
	behind.Kill()
	rest := c.others(behind)
	written, points := 0, int64(0)
	var most, largest int64 // memory and log
	for i := 0; written < *behindMiB<<20; i++ {
		body, n := body(i)
		if err := c.others(behind)[i%2].insist("db", body); err != nil {
			c.fatalf("%v", err)
		}
		written += 16 * int(n) // bytes of the log: the values do not compress
		points += n
		if i%20 == 0 {
			for _, n := range rest {
				most = max(most, n.Status("RssAnon"))
				if s, err := n.status(); err == nil {
					largest = max(largest, s.LogBytes)
				}
			}
		}
	}
	c.await("short logs", func() error {
		for _, n := range rest {
			s, err := n.status()
			if err != nil {
				return err
			}
			if s.LogBytes > 16<<20 { // whole segments
				return fmt.Errorf("the log of %s has %d bytes, of %d that may be kept", n.name, s.LogBytes, s.LogMaxBytes)
			}
		}
		return nil
	})
	began := time.Now()
	c.restart(behind)
	c.healthy()
	t.Logf("%d MiB written while a node was down: at most %d MiB of memory and %d KiB of log at the others; the node was back after %v",
		written>>20, most>>20, largest>>10, time.Since(began).Round(time.Millisecond))
	for _, n := range c.nodes {
		if got, err := n.count("db", "SELECT count(v) FROM big", 0); err != nil || got != points {
			t.Errorf("%s has %d points, want %d: %v", n.name, got, points, err)
		}
	}
	if limit := int64(400 << 20); most > limit {
		t.Errorf("%d MiB of memory, want %d at most", most>>20, limit>>20)
	}
	c.verify()
	c.stop()
}

// insist writes a body at one node until it is stored.
func (n *node) insist(db, body string) error {
	c := &cluster{t: n.c.t, nodes: []*node{n}, http: n.c.http}
	return c.insist(db, 0, body)
}

// body makes points whose values do not compress.
func body(n int) (string, int64) {
	var b strings.Builder
	x := uint64(n)*2654435761 + 88172645463325252
	for i := range 1000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "big,host=h%d v=%di,n=%di %d\n", i%10, int64(x), n, int64(n)*1000+int64(i))
	}
	return b.String(), 1000
}

// rate writes for some time through the leader and returns how many requests per
// second were acknowledged; with no time it returns after 50 requests.
func (c *cluster) rate(leader *node, number *atomic.Int64, during time.Duration) float64 {
	c.t.Helper()
	var done atomic.Int64
	var writers sync.WaitGroup
	began := time.Now()
	over := func() bool {
		if during == 0 {
			return done.Load() >= 50
		}
		return time.Since(began) > during
	}
	for range 4 {
		writers.Go(func() {
			for !over() {
				b, _ := body(int(number.Add(1)))
				if err := leader.insist("db", b); err != nil {
					c.t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	writers.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// TestSlowFollower slows down the network and then the disk of one follower: the
// others take as many writes as before. The follower catches up afterwards.
func TestSlowFollower(t *testing.T) {
	if *slowTime == 0 {
		t.Parallel()
	}
	c := start(t, setup{nodes: 3, proxies: true, env: []string{"TSDBD_CLUSTER_LOG_MAX_SIZE=64MiB"}})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.nodes[0].write("db", "m v=1i 1")
	c.healthy()
	leader := c.leader()
	slow := c.others(leader)[0]
	var number atomic.Int64
	c.rate(leader, &number, *slowTime/2) // warm
	before := c.rate(leader, &number, *slowTime)
	for _, from := range c.others(slow) {
		c.network.Link(from.name, slow.name).Set(faulty.Faults{BytesPerSecond: 100 << 10, Delay: 50 * time.Millisecond})
	}
	network := c.rate(leader, &number, *slowTime)
	if l := c.leader(); l != leader && *slowTime >= 5*time.Second {
		t.Errorf("%s leads, %s did", l.name, leader.name)
	}
	for _, from := range c.others(slow) {
		c.network.Link(from.name, slow.name).Set(faulty.Faults{})
	}
	c.healthy()
	between := c.rate(leader, &number, *slowTime)
	c.healthy()
	disk := 0.0
	t.Run("disk", func(t *testing.T) {
		end := apptest.Inject(t, slow.Server, "fdatasync,fsync,sync_file_range", "delay_enter=200000")
		disk = c.rate(leader, &number, *slowTime)
		end()
	})
	c.healthy()
	if *slowTime >= 5*time.Second {
		t.Logf("%d processors: %.0f requests of 1000 points a second; %.0f with a follower whose network carries 100 KiB/s; %.0f after that; %.0f with a follower whose syncs take 200 ms",
			runtime.NumCPU(), before, network, between, disk)
		if slowest := 0.7 * min(before, between); network < slowest || disk > 0 && disk < slowest {
			t.Error("a slow follower slows down the others")
		}
	}
	c.verify()
	c.stop()
}
