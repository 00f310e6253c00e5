package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/self"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/shard/repair"
)

// damageLog flips a bit in the log of a server that is stopped.
func (s *server) damageLog() {
	s.g.t.Helper()
	segments, err := filepath.Glob(filepath.Join(s.dir, "cluster", "log", "*"))
	if err != nil {
		s.g.t.Fatal(err)
	}
	damaged := false
	for _, name := range segments {
		if !strings.HasSuffix(name, ".rlog") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			s.g.t.Fatal(err)
		}
		b[512+60] ^= 0x10 // in a batch that others follow
		if err := os.WriteFile(name, b, 0o600); err != nil {
			s.g.t.Fatal(err)
		}
		damaged = true
	}
	if !damaged {
		s.g.t.Fatalf("no segment among %q", segments)
	}
}

// TestDamagedLog: a member whose log is damaged sets it aside, copies the state of
// another node and is a voter again under a new id. It has all its data.
func TestDamagedLog(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.write("n1", "d", 0, 300)
	g.equal("n1", "n2", "n3")
	s := g.servers["n3"]
	n, _ := s.now()
	id := n.identity().ID
	s.stop()
	g.write("n1", "d", 300, 100)
	s.damageLog()
	s.start()
	g.await("the node is in again under another id", func() bool {
		n, _ := s.now()
		return n != nil && n.identity().ID != id && n.identity().Joined
	})
	g.voters("n1", "n2", "n3")
	g.write("n3", "d", 400, 100)
	g.equal("n1", "n2", "n3")
	if kept, err := filepath.Glob(filepath.Join(s.dir, "cluster", "quarantine", "log-1")); err != nil || len(kept) != 1 {
		t.Errorf("the damaged log is not kept: %q %v", kept, err)
	}
	n, _ = g.servers["n1"].now()
	for _, m := range n.members() {
		if string(m.ID) == id {
			t.Errorf("the old id %s is still a member", id)
		}
	}
}

// TestFarBehind: a member that was away while the others have dropped the log that it
// needs copies a state, in the process, and follows again.
func TestFarBehind(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3")
	for _, name := range g.join {
		s := g.server(name)
		s.options = func(o *Options) { o.LogMaxBytes = 1 }
	}
	g.start("n1", "n2", "n3")
	g.voters("n1", "n2", "n3")
	g.create("n1", "d")
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	away := g.servers["n3"]
	before, _ := away.now()
	id := before.identity().ID
	last, err := before.log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	away.stop()
	first := func(name string) uint64 {
		n, _ := g.servers[name].now()
		if n == nil {
			return 0
		}
		return n.log.Stats().First
	}
	// The log of the others goes on until its first segment is gone. Long values of few
	// points fill it soon.
	random := rand.New(rand.NewPCG(testseed.Of(t), 2))
	for i := 1; first("n1") <= last+1 || first("n2") <= last+1; i++ {
		if i > 2000 {
			t.Fatal("the log keeps its beginning")
		}
		long := make([]byte, 40<<10)
		for i := range long {
			long[i] = 'a' + byte(random.IntN(26))
		}
		g.send("n1", "/write?db=d", fmt.Sprintf("long v=\"%s\" %d\n", long, i))
		for _, name := range []string{"n1", "n2"} {
			if _, st := g.servers[name].now(); st != nil && i%10 == 0 {
				set, err := st.Backup(t.Context(), nil) // flushes
				if err != nil {
					t.Fatal(err)
				}
				set.Release()
				st.FlushSoon()
			}
		}
	}
	for _, name := range []string{"n1", "n2"} { // so that they have nothing in memory
		g.servers[name].stop()
		g.start(name)
		g.leader()
	}
	away.start()
	g.await("the node has asked to be opened again", func() bool {
		away.mu.Lock()
		defer away.mu.Unlock()
		return away.reopens > 0
	})
	g.voters("n1", "n2", "n3")
	if n, _ := away.now(); n.identity().ID == id {
		t.Error("the node has its old id")
	}
	g.write("n3", "d", 0, 10)
	g.equal("n1", "n2", "n3")
}

// TestKilledTransfer: a node that is stopped at random moments of its first transfer,
// while the others write, has everything in the end.
func TestKilledTransfer(t *testing.T) {
	g := newGroup(t, "n1")
	g.start("n1")
	g.voters("n1")
	g.create("n1", "d")
	for i := range 20 {
		g.write("n1", "d", i*2000, 2000)
	}
	random := rand.New(rand.NewPCG(testseed.Of(t), 1))
	s := g.server("n2")
	s.options = func(o *Options) { o.Voter = false } // n1 must go on alone
	for i := range 8 {
		s.start()
		bytes := g.net.Link("n1", "n2").Bytes()
		some := int64(random.IntN(400_000))
		g.await("some of the state is there", func() bool {
			n, _ := s.now()
			return n != nil || g.net.Link("n1", "n2").Bytes()-bytes >= some
		})
		g.net.Reset("n1", "n2")
		s.stop()
		if s.fatal != nil {
			t.Fatal(s.fatal)
		}
		g.write("n1", "d", 40_000+i*100, 100)
	}
	s.options = nil
	s.start()
	g.voters("n1", "n2")
	g.equal("n1", "n2")
	if v := g.verify("n2"); !v.Equal {
		t.Errorf("%+v", v)
	}
}

// TestDamagedPeer: nobody copies the state of a node whose files are damaged; another
// node is asked, and the status says why.
func TestDamagedPeer(t *testing.T) {
	g := three(t)
	g.create("n1", "d")
	g.done("n1", "POST transfer-leader?name=n1")
	g.write("n1", "d", 0, 300)
	g.equal("n1", "n2", "n3")
	s := g.servers["n2"]
	s.stop()
	q := repair.NewQuarantine(vfs.OS, s.dir, slog.New(slog.DiscardHandler))
	if err := os.WriteFile(filepath.Join(s.dir, "odd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := q.SetAside("odd", errors.New("bits flipped for the test"), repair.LossPoints, "points are missing"); err != nil {
		t.Fatal(err)
	}
	s.start()
	g.voters("n1", "n2", "n3")
	n2, _ := s.now()
	if _, err := n2.base(); err == nil || !strings.Contains(err.Error(), "bits flipped for the test") {
		t.Errorf("the base of a damaged node: %v", err)
	}
	g.await("n1 names the damage of n2", func() bool {
		var st admin.Status
		g.operate("n1", "GET status", &st)
		return slices.ContainsFunc(st.Degraded(), func(r string) bool { return strings.Contains(r, "n2") && strings.Contains(r, "bits flipped") })
	})
	g.servers["n3"].stop()
	g.server("n4").options = func(o *Options) {
		o.Voter = false
		o.Join = slices.DeleteFunc(o.Join, func(p Peer) bool { return p.Name == "n1" })
	}
	g.start("n4")
	g.await("the damaged node is named", func() bool {
		g.log.Lock()
		defer g.log.Unlock()
		return strings.Contains(g.log.String(), "it has damage")
	})
	if n, _ := g.servers["n4"].now(); n != nil {
		t.Error("a node has copied a damaged state")
	}
	g.start("n3")
	g.await("the copy is there", func() bool {
		n, _ := g.servers["n4"].now()
		return n != nil && n.identity().Joined && n.replica.Ready()
	})
	g.equal("n1", "n2", "n3", "n4")
}

// TestStranger: a node with another secret gets a text that says so, and changes nothing.
func TestStranger(t *testing.T) {
	g := newGroup(t, "n1", "n2")
	g.join = []string{"n1"}
	g.server("n1").options = func(o *Options) { o.Secret = "the secret of nodes" }
	g.start("n1")
	g.voters("n1")
	g.join = []string{"n1", "n2"}
	g.server("n2").options = func(o *Options) { o.Secret = "another secret of nodes" }
	g.start("n2")
	g.await("the refusal is logged", func() bool {
		g.log.Lock()
		defer g.log.Unlock()
		for line := range strings.SplitSeq(g.log.String(), "\n") {
			if strings.Contains(line, "first start of the node waits") && strings.Contains(line, "secret") {
				return true
			}
		}
		return false
	})
	g.servers["n2"].stop()
	if i, err := self.Read(vfs.OS, g.servers["n2"].dir); i == nil || i.State != self.Waiting || err != nil {
		t.Errorf("the stranger has an identity: %+v %v", i, err)
	}
	g.voters("n1")
}
