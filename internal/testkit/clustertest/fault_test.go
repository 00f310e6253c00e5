//go:build linux

package clustertest

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// fault is something that happens to a cluster under load. It is over when run
// returns, but the nodes may not be healthy again.
type fault struct {
	name string
	disk bool // it needs a disk for each node
	run  func(g *trouble)
}

// trouble is what a fault draws from.
type trouble struct {
	*cluster
	r *rand.Rand
	// shortest and longest are how long a node is stopped or cut off.
	shortest, longest time.Duration
	stamps            int // measurements of points without a time
}

// hold waits while a fault lasts.
func (g *trouble) hold() {
	time.Sleep(g.shortest + time.Duration(g.r.Int64N(int64(g.longest-g.shortest)+1)))
}

// some returns some nodes, drawn.
func (g *trouble) some(n int) (out []*node) {
	for _, i := range g.r.Perm(len(g.nodes))[:n] {
		out = append(out, g.nodes[i])
	}
	return out
}

// followers returns as many followers as may fail, or fewer, drawn.
func (g *trouble) followers() []*node {
	f := g.others(g.leader())
	g.r.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
	return f[:1+g.r.IntN(g.mayFail())]
}

// aFollower returns a follower, drawn.
func (g *trouble) aFollower() *node { return g.followers()[0] }

// withLeader returns the leader and perhaps followers, as many as may fail at most.
func (g *trouble) withLeader() []*node { return append([]*node{g.leader()}, g.followers()[1:]...) }

// namesOf returns the names of nodes.
func namesOf(nodes []*node) (names []string) {
	for _, n := range nodes {
		names = append(names, n.name)
	}
	return names
}

func (g *trouble) kill(nodes ...*node) {
	for _, n := range nodes {
		n.Kill()
	}
	time.Sleep(time.Duration(g.r.Int64N(int64(2 * time.Second))))
	g.restart(nodes...)
}

func (g *trouble) freeze(nodes ...*node) {
	for _, n := range nodes {
		n.Signal(syscall.SIGSTOP)
	}
	g.hold()
	for _, n := range nodes {
		n.Signal(syscall.SIGCONT)
	}
}

func (g *trouble) cutPower(nodes ...*node) {
	g.t.Helper()
	for _, n := range nodes {
		if err := n.disk.CutPower(); err != nil {
			g.t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.Kill()
	}
	for _, n := range nodes {
		n.disk.Restore()
	}
	g.restart(nodes...)
}

func (g *trouble) fill(nodes ...*node) {
	g.t.Helper()
	ballast := func(n *node) string { return filepath.Join(n.disk.Dir, "ballast") }
	for range 2 { // again what the node has freed meanwhile
		for _, n := range nodes {
			apptest.FillDisk(g.t, ballast(n))
		}
		g.hold()
	}
	for _, n := range nodes {
		if err := os.Remove(ballast(n)); err != nil {
			g.t.Fatal(err)
		}
	}
}

// windBack starts a node with its directory as it was before the node ran last. The node
// must set it aside.
func (g *trouble) windBack(n *node) {
	g.t.Helper()
	old := filepath.Join(g.t.TempDir(), "old")
	n.Kill()
	if err := os.CopyFS(old, os.DirFS(n.Dir)); err != nil {
		g.t.Fatal(err)
	}
	g.restart(n)
	g.hold()
	n.Kill()
	n.wipe()
	if err := os.CopyFS(n.Dir, os.DirFS(old)); err != nil {
		g.t.Fatal(err)
	}
	g.restart(n)
	g.await("the node has set the old copy aside", func() error {
		_, err := os.Stat(filepath.Join(n.Dir, "set-aside-1", "cluster", "log"))
		return err
	})
	if err := os.RemoveAll(filepath.Join(n.Dir, "set-aside-1")); err != nil {
		g.t.Fatal(err)
	}
}

// hang has the disk of a node hang until the hold is over.
func (g *trouble) hang(n *node) {
	g.t.Helper()
	if err := n.disk.Hang(); err != nil {
		g.t.Fatal(err)
	}
	g.hold()
	if err := n.disk.Release(); err != nil {
		g.t.Fatal(err)
	}
}

// cutOff cuts links until the hold is over.
func (g *trouble) cutOff(cut func()) {
	cut()
	g.hold()
	g.network.HealAll()
}

// faults are all faults of the rounds.
var faults = append([]fault{
	{"kill the leader", false, func(g *trouble) { g.kill(g.withLeader()...) }},
	{"kill a follower", false, func(g *trouble) { g.kill(g.followers()...) }},
	{"kill all", false, func(g *trouble) { g.kill(g.nodes...) }},
	{"old copy of a directory", false, func(g *trouble) { g.windBack(g.some(1)[0]) }},
	{"stop the leader", false, func(g *trouble) { g.freeze(g.withLeader()...) }},
	{"stop a follower", false, func(g *trouble) { g.freeze(g.followers()...) }},
	{"power cut of one", true, func(g *trouble) { g.cutPower(g.some(1)...) }},
	{"power cut of two", true, func(g *trouble) { g.cutPower(g.some(2)...) }},
	{"power cut of all", true, func(g *trouble) { g.cutPower(g.nodes...) }},
	{"disk of the leader full", true, func(g *trouble) { g.fill(g.leader()) }},
	{"disk of a follower full", true, func(g *trouble) { g.fill(g.aFollower()) }},
	{"two disks full", true, func(g *trouble) { g.fill(g.some(2)...) }},
	{"disk of the leader hangs", true, func(g *trouble) { g.hang(g.leader()) }},
	{"disk of a follower hangs", true, func(g *trouble) { g.hang(g.aFollower()) }},
	{"leader cut off", false, func(g *trouble) {
		l := namesOf(g.withLeader())
		g.cutOff(func() { g.network.Partition(l...) })
	}},
	{"follower cut off", false, func(g *trouble) {
		f := namesOf(g.followers())
		g.cutOff(func() { g.network.Partition(f...) })
	}},
	{"leader cannot send", false, func(g *trouble) {
		l := g.leader()
		g.cutOff(func() {
			for _, f := range g.others(l) {
				g.network.Cut(l.name, f.name)
			}
		})
	}},
	{"leader cannot hear", false, func(g *trouble) {
		l := g.leader()
		g.cutOff(func() {
			for _, f := range g.others(l) {
				g.network.Cut(f.name, l.name)
			}
		})
	}},
	{"leader cannot send to a follower", false, func(g *trouble) {
		l, f := g.leader(), g.aFollower()
		g.cutOff(func() { g.network.Cut(l.name, f.name) })
	}},
	{"followers cut off from each other", false, func(g *trouble) {
		f := g.others(g.leader())
		g.cutOff(func() {
			g.network.Cut(f[0].name, f[1].name)
			g.network.Cut(f[1].name, f[0].name)
		})
	}},
	{"clock of the leader ahead", false, func(g *trouble) { g.jump(g.leader(), time.Hour, false) }},
	{"clock of the leader behind", false, func(g *trouble) { g.jump(g.leader(), -time.Hour, false) }},
	{"clock of a follower ahead", false, func(g *trouble) { g.jump(g.aFollower(), time.Hour, false) }},
	{"clock of a follower behind", false, func(g *trouble) { g.jump(g.aFollower(), -time.Hour, false) }},
	{"start with another clock", false, func(g *trouble) { g.jump(g.some(1)[0], time.Hour, true) }},
}, damages()...)

// damages has a fault for each kind of file.
func damages() (out []fault) {
	for _, kind := range slices.Sorted(maps.Keys(harms)) {
		out = append(out, fault{"damage of the " + kind, false, func(g *trouble) { g.damage(g.some(1)[0], kind) }})
	}
	return out
}
