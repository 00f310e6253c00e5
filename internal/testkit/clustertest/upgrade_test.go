//go:build linux

package clustertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/cluster/replica"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/tsm"
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
	ws.finish(c)
}

// finish ends the load, and compares each node with what was acknowledged.
func (ws *workers) finish(c *cluster) {
	c.t.Helper()
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
	return buildWith(t, []change{
		{"cluster/transport/handshake.go", "h.Protocol = 1\n", "h.Protocol = " + newest + "\n"},
		{"cluster/transport/handshake.go", "h.OldestProtocol = h.Protocol\n", "h.OldestProtocol = " + oldest + "\n"},
	})
}

// change is one of a source file.
type change struct{ file, before, after string }

// buildWith builds a program of changed sources.
func buildWith(t *testing.T, changes []change) string {
	t.Helper()
	dir := t.TempDir()
	replaced, texts := map[string]string{}, map[string]string{}
	for i, c := range changes {
		source, err := filepath.Abs(filepath.Join("..", "..", "..", c.file))
		if err != nil {
			t.Fatal(err)
		}
		if texts[source] == "" {
			text, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			texts[source], replaced[source] = string(text), filepath.Join(dir, fmt.Sprintf("%d.go", i))
		}
		if strings.Count(texts[source], c.before) != 1 {
			t.Fatalf("%s has not once %q, as this test expects", source, c.before)
		}
		texts[source] = strings.Replace(texts[source], c.before, c.after, 1)
		if err := os.WriteFile(replaced[source], []byte(texts[source]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tsdbd")
	list, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "tsdbd/cmd/tsdbd").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// TestFormatUpgrade upgrades a cluster under load to a program whose log, catalog and files
// are of the next versions. The old leader leads newer nodes, and a newer one an old node. A
// node goes back before the upgrade is finished. Afterwards an older program is refused.
func TestFormatUpgrade(t *testing.T) {
	if !*upgrade {
		t.Skip("builds another program with -upgrade")
	}
	newer := buildWith(t, []change{
		{"cluster/replica/group.go", fmt.Sprintf("const Format = %d\n", replica.Format), fmt.Sprintf("const Format = %d\n", replica.Format+1)},
		{"meta/codec.go", "formatVersion = 9\n", "formatVersion = 10\n"},
		{"tsm/format.go", fmt.Sprintf("\tVersion = %d\n", tsm.Version), fmt.Sprintf("\tVersion = %d\n", tsm.Version+1)},
	})
	wrap := []string{"sh", "-c", "exec " + newer + ` "$@"`}
	c := start(t, setup{nodes: 3, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	finish := func(want byte) {
		t.Helper()
		var answer struct{ Format byte }
		c.nodes[0].administer("finish-upgrade", nil, &answer)
		if answer.Format != want {
			t.Fatalf("the log is written in format %d, want %d", answer.Format, want)
		}
	}
	finish(replica.Format)
	ws := work(c, testseed.Of(t), 0, 4)
	step := func(n *node, program []string) {
		t.Helper()
		ws.advance(c, 3)
		n.Stop()
		n.Wrap = program
		ws.advance(c, 3) // the others go on
		c.restart(n)
		c.healthy()
		ws.advance(c, 3)
	}
	refused := func(n *node) {
		t.Helper()
		n.Stop()
		n.Wrap = nil
		n.Begin()
		if err := n.Await(); err == nil || !strings.Contains(n.Log(), "was written by a newer tsdbd; use that version or newer") {
			t.Fatalf("an older program on the directory of a newer one: %v%s", err, tail(n.Log()))
		}
	}

	leader := c.leader()
	followers := c.others(leader)
	step(followers[0], wrap) // the old leader, and a newer follower
	refused(followers[0])
	followers[0].wipe()
	leader.expel(followers[0].name)
	c.restart(followers[0]) // as the older program, with the data of another node
	c.healthy()
	for _, n := range followers {
		step(n, wrap)
	}
	finish(replica.Format) // one node does not read more
	leader.administer("transfer-leader", url.Values{"name": {followers[1].name}}, nil)
	c.healthy()
	ws.advance(c, 5) // a newer leader, and the old one follows
	step(leader, wrap)
	finish(replica.Format + 1)
	ws.advance(c, 5)

	refused(leader)
	leader.wipe()
	followers[0].expel(leader.name)
	leader.Begin()
	leader.WaitLog(fmt.Sprintf("reads the log up to format %d, and the cluster writes format %d", replica.Format, replica.Format+1))
	leader.Kill()
	leader.wipe()
	leader.Wrap = wrap
	c.restart(leader)
	c.healthy()
	ws.finish(c)
	c.stop()
}
