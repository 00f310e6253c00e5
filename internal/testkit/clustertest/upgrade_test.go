//go:build linux

package clustertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

var upgrade = flag.Bool("upgrade", false, "have TestUpgrade build programs of another version")

// TestRollingRestart stops and starts one node after the other under load: nothing is
// lost and every node comes back.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: *size, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.replace(0, func(*node) {})
	c.stop()
}

// TestUpgrade starts one node after the other as a program that also speaks a newer
// protocol, and then as one that speaks only that. Each pair of neighbors runs together
// meanwhile. A program that speaks only the old protocol is refused in the end.
func TestUpgrade(t *testing.T) {
	if !*upgrade {
		t.Skip("builds other programs with -upgrade")
	}
	both, newer := build(t, "1", "2"), build(t, "2", "2")
	c := start(t, setup{nodes: 3, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	for round, program := range []string{both, newer} {
		c.replace(round, func(n *node) { n.Wrap = []string{"sh", "-c", "exec " + program + ` "$@"`} })
	}
	old := c.follower()
	old.Stop()
	old.Wrap = nil
	old.Begin()
	c.await("a refusal", func() error {
		s, err := c.others(old)[0].status()
		if err != nil {
			return err
		}
		if reasons := strings.Join(s.Degraded(), "; "); !strings.Contains(reasons, "protocol") {
			return fmt.Errorf("nobody speaks of the protocol: %s%s", reasons, tail(old.Log()))
		}
		return nil
	})
	old.Kill()
	old.Wrap = []string{"sh", "-c", "exec " + newer + ` "$@"`}
	c.restart(old)
	c.healthy()
	c.verify()
	c.stop()
}

// replace stops each node in turn under load and starts it again after a change of it.
func (c *cluster) replace(round int, change func(n *node)) {
	c.t.Helper()
	ws := work(c, testseed.Of(c.t), round, 4)
	for _, n := range c.nodes {
		ws.advance(c, 3)
		n.Stop()
		ws.advance(c, 3) // the others go on
		change(n)
		c.restart(n)
		c.healthy()
	}
	ws.advance(c, 3)
	ws.stop(c)
	c.healthy()
	for _, n := range c.nodes {
		for _, w := range ws.all {
			if err := w.check(n); err != nil {
				c.fatalf("%v", err)
			}
		}
	}
	c.verify()
}

// build builds a program that speaks other versions of the protocol between nodes.
func build(t *testing.T, oldest, newest string) string {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs("../../../cluster/transport/handshake.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const before = "h.Protocol = 1\n"
	const oldestBefore = "h.OldestProtocol = h.Protocol\n"
	if strings.Count(string(text), before) != 1 || strings.Count(string(text), oldestBefore) != 1 {
		t.Fatalf("%s does not set the versions as this test expects", source)
	}
	changed := strings.NewReplacer(before, "h.Protocol = "+newest+"\n", oldestBefore, "h.OldestProtocol = "+oldest+"\n").Replace(string(text))
	file, overlay, bin := filepath.Join(dir, "handshake.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tsdbd")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {source: file}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "tsdbd/cmd/tsdbd").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}
