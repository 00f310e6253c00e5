//go:build linux

package clustertest

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var hangTime = flag.Duration("hang-time", 8*time.Second, "how long the disk of TestLeaderWhoseDiskHangs hangs; from 40s on it holds the time without writes")

// TestLeaderWhoseDiskHangs has the disk of the leader hang under writes. The others take
// writes meanwhile, the leader answers what it is asked, and follows when its disk answers.
func TestLeaderWhoseDiskHangs(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: *size, diskMiB: 64, env: small})
	if c.nodes[0].disk == nil {
		t.Skip("there are no disks that hang")
	}
	c.nodes[0].must("", "CREATE DATABASE db")
	c.nodes[0].write("db", "m v=1i 1")
	c.healthy()
	ws := work(c, 1, 0, 4)
	ws.advance(c, 3)
	l := c.leader()
	rest := c.others(l)
	if err := l.disk.Hang(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	other := make(chan struct{})
	go func() {
		defer close(other)
		for time.Since(began) < patience && !slices.ContainsFunc(rest, func(n *node) bool { return strings.Contains(health(n), " leads ") }) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	gap := c.outage(rest, other, began, 0)
	asking := ask([]*node{l})
	for time.Since(began) < *hangTime {
		time.Sleep(10 * time.Millisecond)
	}
	said := health(l)
	queries, err := asking.stop()
	if err := l.disk.Release(); err != nil {
		t.Fatal(err)
	}
	if err != nil || queries == 0 {
		c.fatalf("%d queries at %s, whose disk hangs: %v", queries, l.name, err)
	}
	if !strings.Contains(said, "the disk hangs") {
		c.fatalf("%s, whose disk hangs, says %s", l.name, said)
	}
	t.Logf("no writes for %v; %d queries at the old leader; it said %s", gap.Round(time.Millisecond), queries, said)
	if *hangTime >= 40*time.Second && gap > 4*time.Second {
		t.Errorf("no writes for %v", gap)
	}
	c.healthy()
	ws.advance(c, 3)
	ws.stop(c)
	c.healthy()
	for _, w := range ws.all {
		for _, n := range c.nodes {
			if err := w.check(n); err != nil {
				c.fatalf("%v", err)
			}
		}
	}
	c.verify()
	c.stop()
}

// health returns what a node says of itself.
func health(n *node) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, body, err := n.Do(ctx, "GET", "/health", nil, "")
	if err != nil {
		return err.Error()
	}
	return body
}
