package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/cluster/admin"
	"tsdbd/internal/vfs/vfstest"
)

// disk is a file system in memory that can be full: then it takes only what needs no room.
type disk struct {
	*vfstest.FS
	full atomic.Bool
}

// onDisks gives each server a disk of its own.
func onDisks(g *group) map[string]*disk {
	disks := map[string]*disk{}
	for _, name := range g.join {
		d := &disk{FS: vfstest.New()}
		d.SetHook(func(op vfstest.Op) error {
			inPlace := strings.HasSuffix(op.Path, "/stable") || strings.HasSuffix(op.Path, "/base")
			if d.full.Load() && op.Kind == "write" && !inPlace {
				return syscall.ENOSPC
			}
			return nil
		})
		s := g.server(name)
		if err := d.MkdirAll(s.dir); err != nil {
			g.t.Fatal(err)
		}
		before := s.options
		s.options = func(o *Options) {
			if before != nil {
				before(o)
			}
			o.FS = d.FS
		}
		s.store.FS = d.FS
		disks[name] = d
	}
	return disks
}

// stale reads at a server that has no leader: a query does what httpapi does, and gets what
// was acknowledged.
func (g *group) stale(name string, points int) {
	g.t.Helper()
	n, _ := g.servers[name].now()
	forward, behind, err := n.Read(g.t.Context(), 0, "")
	if forward {
		ctx, cancel := context.WithTimeout(g.t.Context(), patience)
		defer cancel()
		err = n.Forward(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/query", nil))
		if err == nil || !strings.Contains(err.Error(), "the cluster has no leader now") {
			g.t.Fatalf("%s passes a query on: %v", name, err)
		}
		_, behind, err = n.Read(ctx, 0, "stale")
	}
	if err != nil || behind <= 0 || behind > patience {
		g.t.Fatalf("%s: behind %s, %v", name, behind, err)
	}
	if got := len(g.servers[name].content()) - 1; got != points {
		g.t.Fatalf("%s shows %d lines, want %d", name, got, points)
	}
	if forward, _, err := n.Read(g.t.Context(), 0, "strong"); err != nil || !forward {
		g.t.Errorf("a strong read at %s: forward %t, %v", name, forward, err)
	}
	if ok, text := n.Health(); ok || !strings.Contains(text, "behind") || strings.Contains(text, name+" follows "+name) {
		g.t.Errorf("health of %s: %t, %s", name, ok, text)
	}
}

// TestTwoDisksFull fills the disks of the leader and of another node. The third is elected
// and can never begin, but queries are answered on all of them, and what is refused says why.
func TestTwoDisksFull(t *testing.T) {
	g := newGroup(t, "n1", "n2", "n3")
	for _, name := range g.join {
		g.server(name).options = func(o *Options) { o.MaxLag = time.Second }
	}
	disks := onDisks(g)
	g.start("n1", "n2", "n3")
	g.voters("n1", "n2", "n3")
	g.done("n1", "POST transfer-leader?name=n1")
	g.create("n1", "d")
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	points := len(g.servers["n3"].content()) - 1
	disks["n1"].full.Store(true)
	disks["n2"].full.Store(true)
	var refused error
	g.await("n3 is elected and does not lead", func() bool {
		n, _ := g.servers["n3"].now()
		w := httptest.NewRecorder()
		refused = n.Forward(w, httptest.NewRequest(http.MethodPost, "/write?db=d", strings.NewReader("late v=1 1")))
		if refused == nil && w.Code == http.StatusNoContent {
			t.Fatal("a write is acknowledged that one disk has")
		}
		leader, _ := n.leader()
		return string(leader) == n.identity().ID && !n.Leads() && n.replica.Lag() > n.opt.MaxLag
	})
	for _, name := range []string{"n1", "n2", "n3"} {
		n, _ := g.servers[name].now()
		g.await(name+" is behind", func() bool { return n.replica.Lag() > n.opt.MaxLag })
		g.stale(name, points)
	}
	n3, _ := g.servers["n3"].now()
	g.await("what is refused says why", func() bool {
		text := n3.noLeader().Error()
		return strings.Contains(text, "n1: takes no writes: ") && strings.Contains(text, "n2: takes no writes: ")
	})
	if role := n3.role(); role != admin.RoleCandidate {
		t.Errorf("n3 is a %s", role)
	}
	if s := n3.Status(); s.Leader != "" || !strings.Contains(fmt.Sprint(s.Degraded()), "no leader is known") {
		t.Errorf("status %+v", s)
	}
	disks["n1"].full.Store(false)
	disks["n2"].full.Store(false)
	g.write("n3", "d", 100, 10)
	g.equal("n1", "n2", "n3")
}

// TestOneOfThree starts one node of three after all have ended: it answers queries with
// everything that was acknowledged, and says how old that may be.
func TestOneOfThree(t *testing.T) {
	g := settled(t, func(o *Options) { o.MaxLag = time.Second })
	g.write("n1", "d", 0, 500)
	g.equal("n1", "n2", "n3")
	points := len(g.servers["n2"].content()) - 1
	for _, name := range []string{"n1", "n2", "n3"} {
		n, _ := g.servers[name].now()
		index := n.replica.Stats().Index
		g.await(fmt.Sprintf("%s keeps the commit index %d", name, index), func() bool { return n.log.Committed() >= index })
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		g.servers[name].stop()
	}
	s := g.servers["n2"]
	s.start()
	g.await("n2 is open", func() bool { n, _ := s.now(); return n != nil })
	n, _ := s.now()
	// At first it might still meet a leader.
	g.await("n2 answers by itself", func() bool {
		forward, _, err := n.Read(t.Context(), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		return !forward
	})
	g.stale("n2", points)
	g.start("n1", "n3")
	g.voters("n1", "n2", "n3")
	g.write("n2", "d", 500, 10)
	g.equal("n1", "n2", "n3")
	g.await("n2 is not behind", func() bool {
		forward, behind, err := n.Read(t.Context(), 0, "")
		return err == nil && !forward && behind == 0
	})
}
