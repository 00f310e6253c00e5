package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/self"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/store"
)

// state waits until the directory of a server says that its node is in a state.
func (s *server) state(state string) (i *self.Identity) {
	s.g.t.Helper()
	s.g.await(s.name+" is in the state "+state, func() bool {
		var err error
		if i, err = self.Read(vfs.OS, s.dir); err != nil {
			s.g.t.Fatal(err)
		}
		return i != nil && i.State == state
	})
	return i
}

// lose stops a server and gives it an empty directory.
func (s *server) lose() {
	s.g.t.Helper()
	s.stop()
	s.dir = filepath.Join(s.g.t.TempDir(), s.name)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		s.g.t.Fatal(err)
	}
}

// tried sends one request that creates a database of its own to a server that is open, and returns
// the status, 0 if there is no answer.
func (s *server) tried() int {
	n, st := s.now()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/create?db=tried", nil)
	if n.Leads() {
		api{st}.ServeHTTP(w, r)
	} else if n.Forward(w, r) != nil {
		return 0
	}
	return w.Code
}

// TestFoundedByAll: a new cluster has all nodes of its list as voters from the first entry
// on. So the founder alone acknowledges nothing, and what is acknowledged first survives
// the loss of its disk.
func TestFoundedByAll(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3")
	g.start("n2", "n3")
	for _, name := range []string{"n2", "n3"} {
		g.servers[name].state(self.Waiting)
	}
	g.start("n1")
	founder := g.servers["n1"]
	founder.state(self.Member)
	g.servers["n2"].stop()
	g.servers["n3"].stop()
	g.await("n1 is open", func() bool { n, _ := founder.now(); return n != nil })
	n, _ := founder.now()
	if members := n.members(); len(members) != 3 || slices.ContainsFunc(members, func(s raft.Server) bool { return s.Suffrage != raft.Voter }) {
		t.Errorf("the founder begins with the members %v", members)
	}
	if status := founder.tried(); status == http.StatusNoContent {
		t.Fatal("one disk has acknowledged a request")
	}
	g.start("n2")
	g.await("n2 is open", func() bool { n, _ := g.servers["n2"].now(); return n != nil })
	g.create("n2", "d")
	g.write("n1", "d", 0, 100)
	founder.lose()
	g.start("n3")
	g.await("n3 has what was written", func() bool { n, _ := g.servers["n3"].now(); return n != nil && n.replica.Ready() })
	g.write("n3", "d", 100, 100)
	g.equal("n2", "n3")
	if got := len(g.servers["n3"].content()); got < 200 {
		t.Errorf("%d lines of 200 points", got)
	}
	// What had a seat and has lost its disk does not get it back by itself.
	founder.start()
	founder.refused("tsdbd cluster remove n1")
	g.done("n2", "POST remove?name=n1")
	founder.start()
	g.voters("n1", "n2", "n3")
	g.equal("n1", "n2", "n3")
}

// TestFoundingWaits: nothing is founded while a node of the list does not answer. A node
// of the list without a vote gets a seat without one.
func TestFoundingWaits(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3", "n4")
	g.server("n4").options = func(o *Options) { o.Voter = false }
	g.start("n1", "n2", "n4")
	g.await("n1 waits for n3 only", func() bool {
		g.log.Lock()
		defer g.log.Unlock()
		return strings.Contains(g.log.String(), `node=n1 for="n3 (`)
	})
	var ids []string
	for _, name := range []string{"n1", "n2", "n4"} {
		ids = append(ids, g.servers[name].state(self.Waiting).ID)
	}
	g.servers["n2"].stop()
	g.start("n2") // its id is the same
	g.start("n3")
	g.voters("n1", "n2", "n3")
	for i, name := range []string{"n1", "n2", "n4"} {
		if got := g.servers[name].state(self.Member).ID; got != ids[i] {
			t.Errorf("%s waited as %s and is %s", name, ids[i], got)
		}
	}
	g.create("n4", "d")
	g.write("n4", "d", 0, 10)
	g.equal("n1", "n2", "n3", "n4")
}

// TestFoundedAlone: a list of one node is a cluster at once.
func TestFoundedAlone(t *testing.T) {
	g := newGroup(t, "n1")
	g.start("n1")
	g.voters("n1")
	g.create("n1", "d")
	if n, _ := g.servers["n1"].now(); len(n.members()) != 1 {
		t.Errorf("%v", n.members())
	}
}

// TestFive: of five nodes two may fail, the leader among them, by a stop or by a cut of the
// network. With a third one gone nothing is acknowledged until one is back.
func TestFive(t *testing.T) {
	names := []string{"n1", "n2", "n3", "n4", "n5"}
	g := newGroup(t, names...)
	g.start(names...)
	g.voters(slices.Clone(names)...)
	g.create("n1", "d")
	g.write("n5", "d", 0, 50)
	first := g.leader()
	if n, _ := first.now(); n.disks() != 3 {
		t.Errorf("an acknowledged write is on %d disks", n.disks())
	}
	without := func(gone ...string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(gone, name) })
	}
	gone := []string{first.name, without(first.name)[0]}
	rest := without(gone...)
	g.net.Partition(gone...)
	g.await("another leader", func() bool {
		for _, name := range rest {
			if n, _ := g.servers[name].now(); n.Leads() {
				return true
			}
		}
		return false
	})
	g.write(rest[0], "d", 50, 50)
	g.net.HealAll()
	g.equal(names...)

	gone = []string{g.leader().name}
	gone = append(gone, without(gone...)[:2]...)
	for _, name := range gone[:2] {
		g.servers[name].stop()
	}
	rest = without(gone...)
	g.write(rest[0], "d", 100, 50)
	g.servers[gone[2]].stop()
	if status := g.servers[rest[0]].tried(); status == http.StatusNoContent {
		t.Error("two of five disks acknowledge")
	}
	g.start(gone[0])
	g.write(rest[1], "d", 150, 50)
	g.start(gone[1:]...)
	g.voters(slices.Clone(names)...)
	g.equal(names...)
	if got := len(g.servers["n1"].content()); got < 200 {
		t.Errorf("%d lines of 200 points", got)
	}
}

// TestDisks: answers to writes, the status and the health say on how many disks an
// acknowledged write is at least.
func TestDisks(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3")
	for _, name := range []string{"n2", "n3"} {
		g.server(name).options = func(o *Options) { o.Voter = false }
	}
	g.start("n1", "n2", "n3")
	g.await("three nodes", func() bool {
		for _, name := range g.join {
			if n, _ := g.servers[name].now(); n == nil || !n.replica.Ready() {
				return false
			}
		}
		return true
	})
	n1, _ := g.servers["n1"].now()
	said := func(stamp func(http.Header)) string {
		h := http.Header{}
		stamp(h)
		if h.Get("X-Tsdbd-Position") == "" {
			t.Errorf("no position: %v", h)
		}
		return h.Get("X-Tsdbd-Disks")
	}
	of := func(disks string) {
		t.Helper()
		for _, name := range g.join {
			n, _ := g.servers[name].now()
			g.await(name+" says "+disks, func() bool {
				_, text := n.Health()
				return strings.Contains(text, "acknowledged writes are on "+disks+" of 3 disks") && fmt.Sprint(n.Status().Disks) == disks
			})
			if got := said(n.Stamp(true)); got != disks {
				t.Errorf("%s stamps %s disks, want %s", name, got, disks)
			}
		}
	}
	of("1")
	before := n1.Stamp(true)
	g.done("n1", "POST add?name=n2")
	of("2")
	if got := said(before); got != "1" {
		t.Errorf("a write from before the second vote is on %s disks", got)
	}
	g.done("n1", "POST add?name=n3")
	of("2")
	if got := said(n1.Stamp(false)); got != "" {
		t.Errorf("the answer to a query is on %s disks", got)
	}
}

// TestWaitingDirectory: the directory of a node that waits is still free. A copy of it is
// that of another node, and a single server may write to it.
func TestWaitingDirectory(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3")
	g.start("n2")
	id := g.servers["n2"].state(self.Waiting).ID
	g.servers["n2"].stop()
	for _, name := range []string{"n1", "n3"} {
		if err := os.CopyFS(g.server(name).dir, os.DirFS(g.servers["n2"].dir)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Leave(t.Context(), vfs.OS, g.servers["n2"].dir, 0); err == nil || !strings.Contains(err.Error(), "no member of a cluster") {
		t.Errorf("leaving no cluster: %v", err)
	}
	single(t, g.servers["n2"].dir, func(st *store.Store) { put(t, st, "d", 0, 100) })
	g.start("n1", "n2", "n3")
	g.voters("n1", "n2", "n3")
	g.equal("n1", "n2", "n3")
	n, _ := g.servers["n2"].now()
	if i := n.identity(); !i.Seed || i.ID == id || len(i.Seats) != 1 {
		t.Errorf("the node with data has not founded the cluster under a new id: %+v", i)
	}
	if got := len(g.servers["n1"].content()); got < 100 {
		t.Errorf("%d lines of 100 points", got)
	}
}

// TestFoundingSteps cuts the power at each operation of a founding, at the founder and at
// another node. What is left is a node that waits under the same id, or a whole member.
func TestFoundingSteps(t *testing.T) {
	t.Parallel()
	const cluster = "00112233445566778899aabbccddeeff"
	random := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for _, name := range []string{"n1", "n2"} {
		node := func(fsys vfs.FS) *Node {
			opt := Options{Dir: "/d", Name: name, FS: fsys, Join: []Peer{{"n1", "h1:1"}, {"n2", "h2:1"}, {"n3", "h3:1"}}}
			opt.setDefaults()
			n := &Node{opt: opt, fs: fsys, logger: slog.New(slog.DiscardHandler)}
			err := fsys.MkdirAll("/d")
			if err == nil {
				n.mu.identity, err = self.Read(fsys, "/d")
			}
			if err = errors.Join(err, n.await(t.Context())); err != nil {
				t.Fatal(err)
			}
			return n
		}
		base := vfstest.New()
		var seats []self.Seat
		for _, p := range node(base).opt.Join {
			seats = append(seats, self.Seat{ID: self.NewID(p.Name), Address: p.Address, Voter: true})
		}
		id := node(base).identity().ID
		seats[slices.IndexFunc(seats, func(s self.Seat) bool { return self.NameOf(raft.ServerID(s.ID)) == name })].ID = id
		whole := func(fsys vfs.FS) error {
			log, err := raftlog.Open(fsys, "/d/cluster/log", raftlog.Options{})
			if err != nil {
				return err
			}
			defer log.Close()
			c, at := log.Configuration(1)
			data, err := meta.ReadFile(fsys, "/d/meta/"+meta.CopyNames()[0])
			if err != nil || len(log.Damage()) > 0 || at != 1 || len(c.Servers) != 3 || data.Lineage.String() != cluster {
				return fmt.Errorf("%v, damage %v, members %v since %d, %+v", err, log.Damage(), c.Servers, at, data)
			}
			return nil
		}
		for op := 0; ; op++ {
			f := base.Clone()
			n := node(f)
			ops := f.FailFrom(op, errors.New("power cut"))
			sat := n.sit(cluster, seats, 0)
			f.SetHook(nil)
			left := f.CrashLocked(random, random.Float64())
			i, err := self.Read(left, "/d")
			switch {
			case err != nil || i == nil || i.ID != id:
				t.Fatalf("%s, operation %d: %+v %v", name, op, i, err)
			case i.State == self.Member:
				err = whole(left)
			case sat == nil:
				err = errors.New("the node still waits")
			default:
				if err = node(left).sit(cluster, seats, 0); err == nil {
					err = whole(left)
				}
			}
			if err != nil {
				t.Fatalf("%s, operation %d, in the state %s: %v", name, op, i.State, err)
			}
			if ops() < op {
				if op < 20 {
					t.Errorf("%s: %d operations only", name, op)
				}
				break
			}
		}
	}
}

// TestFoundingPowerCuts cuts the power of all nodes at random operations while they found
// a cluster, and starts them again: there is one cluster of them all.
func TestFoundingPowerCuts(t *testing.T) {
	t.Parallel()
	for round, names := range [][]string{{"n1", "n2", "n3"}, {"n1", "n2", "n3"}, {"n1", "n2", "n3", "n4", "n5"}} {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			g := newGroup(t, names...)
			random := rand.New(rand.NewPCG(testseed.Of(t), uint64(round)))
			for _, name := range g.join {
				s := g.server(name)
				disk := vfstest.New()
				s.dir, s.store.FS = "/"+name, disk
				s.options = func(o *Options) { o.FS = s.store.FS }
				if err := errors.Join(disk.MkdirAll(s.dir), disk.SyncDir("/")); err != nil {
					t.Fatal(err)
				}
				disk.FailFrom(random.IntN(120), errors.New("power cut"))
			}
			g.start(g.join...)
			for _, name := range g.join {
				s := g.servers[name]
				if err := s.ended(); err == nil {
					t.Fatalf("the power of %s is not cut", name)
				}
				s.store.FS = s.store.FS.(*vfstest.FS).CrashLocked(random, random.Float64())
				s.start()
			}
			g.voters(slices.Clone(names)...)
			g.create("n2", "d")
			g.write("n3", "d", 0, 100)
			g.equal(names...)
		})
	}
}
