//go:build linux

package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestLeaderWithoutSpace fills the disk of the leader: another node leads, and takes
// writes of all kinds. Nothing is lost.
func TestLeaderWithoutSpace(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: *size, diskMiB: 64, env: small})
	if c.nodes[0].disk == nil {
		t.Skip("there are no disks to fill")
	}
	c.nodes[0].must("", "CREATE DATABASE db")
	ws := work(c, 1, 0, 4)
	ws.advance(c, 3)
	full := c.leader()
	ballast := func(n *node) string { return filepath.Join(n.disk.Dir, "ballast") }
	apptest.FillDisk(t, ballast(full))
	c.await("another leader", func() error {
		apptest.FillDisk(t, ballast(full)) // what the node has freed meanwhile
		if l := c.leader(); l == full {
			return fmt.Errorf("%s leads", l.name)
		}
		return nil
	})
	ws.advance(c, 5)
	if err := os.Remove(ballast(full)); err != nil {
		t.Fatal(err)
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
