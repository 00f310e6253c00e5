package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/self"
	"tsdbd/cluster/transport"
	"tsdbd/internal/vfs"
	"tsdbd/store"
)

// TestThree starts three empty nodes in any order. The first in the list founds the
// cluster, whoever is first. All take writes and have the same.
func TestThree(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"n1", "n2", "n3"}, {"n3", "n2", "n1"}} {
		t.Run(strings.Join(order, ""), func(t *testing.T) {
			g := newGroup(t, "n1", "n2", "n3")
			g.start(order...)
			g.voters("n1", "n2", "n3")
			if n, _ := g.servers["n1"].now(); !n.identity().Seed {
				t.Error("the first in the list has not founded the cluster")
			}
			g.create("n2", "d")
			for i, name := range order {
				g.write(name, "d", i*100, 100)
			}
			g.equal("n1", "n2", "n3")
			if v := g.verify("n3"); !v.Equal || len(v.Nodes) != 3 || v.Nodes[0].Sum == "" {
				t.Errorf("%+v", v)
			}
			for _, name := range order {
				g.await("the status of "+name+" is that of a whole cluster", func() bool {
					var s admin.Status
					if status, text := g.operate(name, "GET status", &s); status != http.StatusOK {
						t.Fatal(status, text)
					}
					return s.Node == name && len(s.Members) == 3 && s.Leader == g.leader().name && len(s.Degraded()) == 0 && s.LogBytes > 0 && s.Term > 0
				})
				n, _ := g.servers[name].now()
				g.await(name+" is healthy", func() bool {
					ok, text := n.Health()
					return ok && strings.Contains(text, name)
				})
			}
			// All stop, and start again.
			for _, name := range order {
				g.servers[name].stop()
			}
			g.start(order...)
			g.voters("n1", "n2", "n3")
			g.write("n1", "d", 1000, 10)
			g.equal("n1", "n2", "n3")
		})
	}
}

// single makes a server without a cluster write to a directory.
func single(t *testing.T, dir string, f func(st *store.Store)) {
	t.Helper()
	if err := self.CheckSingle(vfs.OS, dir); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, store.Options{RetentionInterval: -1, CloseFlush: -1})
	if err != nil {
		t.Fatal(err)
	}
	f(st)
	if s := st.State(); len(s.LogDamage)+len(s.Quarantined)+len(s.Unopened) > 0 {
		t.Errorf("the single server finds damage: %+v", s)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// put writes points to a server without a cluster.
func put(t *testing.T, st *store.Store, db string, from, n int) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "/create?db="+db, nil)
	if err == nil {
		err = api{st}.do(r, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "cpu,host=h%d v=%d %d\n", i%50, i, int64(i)*3600*second)
	}
	r.URL.Path = "/write"
	if err := (api{st}).do(r, b.String()); err != nil {
		t.Fatal(err)
	}
}

// TestOneToThreeToOne: a server with data in its log founds the cluster, though it is
// not the first in the list. Later it is alone again, with all that was written.
func TestOneToThreeToOne(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3")
	dir := g.server("n2").dir
	single(t, dir, func(st *store.Store) { put(t, st, "d", 0, 500) })
	g.start("n1", "n3", "n2")
	g.voters("n1", "n2", "n3")
	if n, _ := g.servers["n2"].now(); !n.identity().Seed {
		t.Error("the node with data has not founded the cluster")
	}
	g.write("n1", "d", 500, 500)
	g.equal("n1", "n2", "n3")
	if got := len(g.servers["n3"].content()); got < 1000 {
		t.Fatalf("%d lines of 1000 points", got)
	}
	want := g.servers["n1"].content()

	if err := self.CheckSingle(vfs.OS, dir); err == nil || !strings.Contains(err.Error(), "tsdbd cluster leave") {
		t.Errorf("a single server on the directory of a member: %v", err)
	}
	for _, name := range []string{"n1", "n3"} {
		g.done("n2", "POST remove?name="+name)
		g.servers[name].refused("was removed from cluster")
	}
	g.voters("n2")
	g.write("n2", "d", 2000, 1)
	if status, text := g.answered("n2", "POST remove?name=n2", nil); status != http.StatusConflict || !strings.Contains(text, "cluster leave") {
		t.Errorf("removing the only voter: %d %s", status, text)
	}
	want = append(want, g.servers["n2"].content()...)
	slices.Sort(want)
	want = slices.Compact(want)
	g.servers["n2"].stop()
	g.start("n1")
	g.servers["n1"].refused("start with an empty directory")
	left, err := Leave(t.Context(), vfs.OS, dir, 0)
	if err != nil || left.Name != "n2" {
		t.Fatal(left, err)
	}
	if _, err := Leave(t.Context(), vfs.OS, dir, 0); err == nil || !strings.Contains(err.Error(), "no member of a cluster") {
		t.Errorf("leaving twice: %v", err)
	}
	single(t, dir, func(st *store.Store) {
		s := &server{g: g, st: st}
		got := slices.Compact(s.content())
		if !slices.Equal(got, want) {
			t.Errorf("%d lines after the cluster, want %d", len(got), len(want))
		}
		put(t, st, "e", 0, 10)
	})
	single(t, dir, func(st *store.Store) {
		if got := len((&server{g: g, st: st}).content()); got < len(want)+10 {
			t.Errorf("%d lines after another start, want %d", got, len(want)+10)
		}
	})
}

// TestLeaveAfterKill: what only the log of the node has is not lost when it leaves.
func TestLeaveAfterKill(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.servers["n3"].store.CloseFlush = -1 // nothing is in files
	g.servers["n3"].stop()
	g.start("n3")
	g.voters("n1", "n2", "n3")
	g.write("n1", "d", 0, 300)
	g.equal("n1", "n2", "n3")
	want := g.servers["n3"].content()
	g.servers["n3"].stop()
	if _, err := Leave(t.Context(), vfs.OS, g.servers["n3"].dir, 0); err != nil {
		t.Fatal(err)
	}
	single(t, g.servers["n3"].dir, func(st *store.Store) {
		if got := (&server{g: g, st: st}).content(); !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
	})
}

// TestReplace: a member whose directory is lost must be removed before a node of its
// name joins. A node of another name joins at once.
func TestReplace(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.write("n1", "d", 0, 300)
	lost := g.servers["n3"]
	lost.stop()
	lost.dir = filepath.Join(t.TempDir(), "n3")
	if err := os.MkdirAll(lost.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lost.start()
	lost.refused("tsdbd cluster remove n3")
	g.write("n2", "d", 300, 100)
	g.done("n1", "POST remove?name=n3")
	g.voters("n1", "n2")
	lost.start()
	g.voters("n1", "n2", "n3")
	g.start("n4") // it is not in the list of the others
	g.voters("n1", "n2", "n3", "n4")
	g.write("n4", "d", 400, 100)
	g.equal("n1", "n2", "n3", "n4")
	if v := g.verify("n1"); !v.Equal || len(v.Nodes) != 4 {
		t.Errorf("%+v", v)
	}
}

// TestReplica: a node without a vote has all data, and gets a vote from an
// administrator only. A voter can lose its vote.
func TestReplica(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.write("n1", "d", 0, 100)
	g.server("n4").options = func(o *Options) { o.Voter = false }
	g.start("n4")
	g.await("the copy is there", func() bool {
		n, _ := g.servers["n4"].now()
		return n != nil && n.identity().Joined && n.replica.Ready()
	})
	g.write("n4", "d", 100, 100)
	g.equal("n1", "n2", "n3", "n4")
	g.voters("n1", "n2", "n3")
	g.done("n2", "POST add?name=n4")
	g.voters("n1", "n2", "n3", "n4")
	g.done("n2", "POST add?name=n4&voter=false")
	g.voters("n1", "n2", "n3")
	// A node that is to be a voter by its settings does not take the vote back.
	n3, _ := g.servers["n3"].now()
	g.await("n3 knows that it votes", func() bool { return n3.identity().Voted })
	g.done("n1", "POST transfer-leader?name=n1")
	g.done("n1", "POST add?name=n3&voter=false")
	g.await("n3 has lost its vote", func() bool { m, _ := find(n3.members(), "n3"); return m.Suffrage == raft.Nonvoter })
	if err := n3.attendOnce(false); err != nil {
		t.Error(err)
	}
	g.voters("n1", "n2")
	g.done("n1", "POST add?name=n3")
	g.voters("n1", "n2", "n3")
	for _, f := range []struct {
		request string
		status  int
		text    string
	}{
		{"POST add?name=n9", http.StatusBadRequest, "the members are n1, n2, n3, n4"},
		{"POST add", http.StatusBadRequest, "name the member"},
		{"POST add?name=n4&voter=perhaps", http.StatusBadRequest, "true or false"},
		{"POST remove?name=n9", http.StatusBadRequest, "no member has the name"},
		{"POST transfer-leader?name=n4", http.StatusConflict, "has no vote"},
		{"POST what", http.StatusNotFound, "no such request"},
		{"POST verify?timeout=soon", http.StatusBadRequest, "a duration such as 10m"},
	} {
		for _, name := range []string{"n1", "n2", "n4"} {
			if status, text := g.answered(name, f.request, nil); status != f.status || !strings.Contains(text, f.text) {
				t.Errorf("%s at %s: %d %s, want %d %s", f.request, name, status, text, f.status, f.text)
			}
		}
	}
}

// TestTransferLeader: an administrator moves the lead; a node that stops hands it over.
func TestTransferLeader(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	for _, name := range []string{"n2", "n3", "n1"} {
		g.done("n1", "POST transfer-leader?name="+name)
		g.await(name+" leads", func() bool { n, _ := g.servers[name].now(); return n.Leads() })
		g.write("n1", "d", 0, 10)
	}
	old := g.leader()
	g.done("n2", "POST transfer-leader")
	g.await("another node leads", func() bool { n, _ := old.now(); return !n.Leads() })
	old = g.leader()
	old.stop()
	if g.leader() == old {
		t.Error("a stopped node leads")
	}
	g.write(g.leader().name, "d", 10, 10)
	old.start()
	g.voters("n1", "n2", "n3")
	g.equal("n1", "n2", "n3")
}

// TestSilentVoter: no further voter, and no removal that takes the majority away, while
// a voter does not answer.
func TestSilentVoter(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.done("n1", "POST transfer-leader?name=n1")
	g.await("n1 leads", func() bool { n, _ := g.servers["n1"].now(); return n.Leads() })
	g.server("n4").options = func(o *Options) { o.Voter = false }
	g.start("n4")
	g.await("the copy is there", func() bool {
		n, _ := g.servers["n4"].now()
		return n != nil && n.identity().Joined && n.replica.Ready()
	})
	g.servers["n3"].stop()
	if status, text := g.answered("n1", "POST add?name=n4", nil); status != http.StatusConflict || !strings.Contains(text, "voter n3 cannot be reached") {
		t.Errorf("another voter: %d %s", status, text)
	}
	if status, text := g.answered("n1", "POST remove?name=n2", nil); status != http.StatusConflict || !strings.Contains(text, "start n3 first") {
		t.Errorf("a removal: %d %s", status, text)
	}
	if status, text := g.answered("n1", "POST transfer-leader?name=n3", nil); status != http.StatusConflict || !strings.Contains(text, "cannot be reached") {
		t.Errorf("the lead for a silent node: %d %s", status, text)
	}
	g.await("n2 names the silent voter", func() bool {
		var s admin.Status
		g.operate("n2", "GET status", &s)
		return slices.ContainsFunc(s.Degraded(), func(r string) bool { return strings.Contains(r, "n3") })
	})
	g.done("n1", "POST remove?name=n3")
	g.done("n1", "POST add?name=n4")
	g.voters("n1", "n2", "n4")
	g.start("n3")
	g.servers["n3"].refused("was removed from cluster")
}

// TestAddress: a member that has moved to another address is found there.
func TestAddress(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	s := g.servers["n3"]
	s.stop()
	moved := g.address("n3-moved")
	s.options = func(o *Options) {
		o.Bind, o.Listen = moved, g.net.Listen("n3-moved")
		for i := range o.Join {
			if o.Join[i].Name == "n3" {
				o.Join[i].Address = moved
			}
		}
	}
	s.start()
	g.await("the others have the new address", func() bool {
		n, _ := g.servers["n1"].now()
		m, _ := find(n.members(), "n3")
		return string(m.Address) == moved
	})
	g.voters("n1", "n2", "n3")
	g.write("n3", "d", 0, 100)
	g.equal("n1", "n2", "n3")
}

// TestCopiedDirectory starts two servers with one identity: in whatever order, the
// cluster keeps the one that it has, and the other ends.
func TestCopiedDirectory(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.write("n1", "d", 0, 100)
	original, twin := g.servers["n3"], g.server("twin")
	original.stop()
	if err := os.CopyFS(twin.dir, os.DirFS(original.dir)); err != nil {
		t.Fatal(err)
	}
	twin.options = func(o *Options) {
		o.Name = "n3"
		o.Join = slices.DeleteFunc(o.Join, func(p Peer) bool { return p.Name == "n3" || p.Name == "twin" })
		o.Join = append(o.Join, Peer{"n3", g.address("twin")})
	}
	original.start()
	g.voters("n1", "n2", "n3")
	twin.start()
	twin.refused("n3 runs at " + g.address("n3") + " with a copy of this directory")
	g.write("n3", "d", 0, 100)

	original.stop()
	twin.start()
	g.await("the others have the new address", func() bool {
		n, _ := g.servers["n1"].now()
		m, _ := find(n.members(), "n3")
		return string(m.Address) == g.address("twin")
	})
	original.start()
	original.refused("n3 runs at " + g.address("twin") + " with a copy of this directory")
	g.write("twin", "d", 0, 100)
	g.equal("n1", "n2", "twin")
}

// TestRefusals: what cannot be is refused with a text that says what to do.
func TestRefusals(t *testing.T) {
	t.Parallel()
	t.Run("two with data", func(t *testing.T) {
		g := newGroup(t, "n1", "n2")
		for _, name := range g.join {
			single(t, g.server(name).dir, func(st *store.Store) { put(t, st, "d", 0, 1) })
		}
		g.start("n1", "n2")
		g.oneRefused("only one node of a new cluster may")
	})
	t.Run("two founders", func(t *testing.T) {
		g := newGroup(t, "n1", "n2")
		g.server("n2").options = func(o *Options) { slices.Reverse(o.Join) }
		g.start("n1", "n2")
		g.oneRefused("give all nodes the same list in the same order")
	})
	t.Run("data of its own", func(t *testing.T) {
		g := newGroup(t, "n1")
		g.start("n1")
		g.voters("n1")
		single(t, g.server("n2").dir, func(st *store.Store) { put(t, st, "d", 0, 1) })
		g.start("n2")
		g.servers["n2"].refused("a node joins with an empty directory")
	})
	t.Run("another name", func(t *testing.T) {
		g := newGroup(t, "n1")
		g.start("n1")
		g.voters("n1")
		g.servers["n1"].stop()
		g.servers["n1"].options = func(o *Options) {
			o.Name = "n7"
			o.Join[0].Name = "n7"
		}
		g.start("n1")
		g.servers["n1"].refused("is the directory of node n1, but cluster.node is n7")
	})
	t.Run("another cluster", func(t *testing.T) {
		g := newGroup(t, "n1")
		g.start("n1")
		g.voters("n1")
		g.join = []string{"n2"}
		g.start("n2")
		g.voters("n2")
		g.servers["n2"].stop()
		g.join = []string{"n1", "n2"}
		g.start("n2")
		g.voters("n2")
		var s admin.Status
		g.await("the refusal is in the status", func() bool {
			// Nothing connects them by itself: a request does.
			n, _ := g.servers["n2"].now()
			_, err := n.statusOf(t.Context(), g.address("n1"))
			if err == nil {
				t.Fatal("nodes of two clusters talk to each other")
			}
			g.operate("n2", "GET status", &s)
			return slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "cluster") })
		})
	})
	t.Run("same name", func(t *testing.T) {
		g := newGroup(t, "n1", "n2")
		g.start("n1")
		g.server("x").options = func(o *Options) {
			o.Name = "n1"
			o.Join = []Peer{{"n1", g.address("x")}, {"n2", g.address("n1")}}
		}
		g.start("x")
		g.await("the refusal is logged", func() bool {
			g.log.Lock()
			defer g.log.Unlock()
			return strings.Contains(g.log.String(), "name n1")
		})
	})
	t.Run("options", func(t *testing.T) {
		for want, change := range map[string]func(o *Options){
			"the node has no name":          func(o *Options) { o.Name = "" },
			"cluster.join has no n1":        func(o *Options) { o.Join = []Peer{{"n2", "127.0.0.1:2"}} },
			"cluster.join has n2 twice":     func(o *Options) { o.Join = append(o.Join, Peer{"n2", "127.0.0.1:1"}, Peer{"n2", "127.0.0.1:2"}) },
			"the same address":              func(o *Options) { o.Join = append(o.Join, Peer{"n2", o.Join[0].Address}) },
			"cannot be the name of a node":  func(o *Options) { o.Name = "a/b" },
			"without a secret":              func(o *Options) { o.Join = append(o.Join, Peer{"n2", "10.0.0.1:1"}) },
			"the secret of the cluster has": func(o *Options) { o.Secret = "short" },
		} {
			t.Run(want, func(t *testing.T) {
				g := newGroup(t, "n1")
				g.server("n1").options = change
				g.start("n1")
				g.servers["n1"].refused(want)
			})
		}
	})
}

// TestAddresses: what raft sends to a server never reaches another one that has its
// address now, also when the server is no longer a member.
func TestAddresses(t *testing.T) {
	g := newGroup(t, "n1")
	g.start("n1")
	g.voters("n1")
	n, _ := g.servers["n1"].now()
	net := transport.NewNetwork(n.transport, n.meet)
	defer net.Close()
	own := raft.ServerID(n.identity().ID)
	at := raft.ServerAddress(n.opt.address())
	for _, f := range []struct {
		id raft.ServerID
		at raft.ServerAddress
		ok bool
	}{{own, at, true}, {"n1/00000000", at, false}, {"n2/00000000", at, false}, {own, "", false}} {
		p, err := net.AppendEntriesPipeline(f.id, f.at)
		if f.ok != (err == nil) {
			t.Errorf("a connection to %s at %q: %v", f.id, f.at, err)
		}
		if err == nil {
			p.Close()
		}
	}
}
