package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/raftlog"
	"tsdbd/internal/vfs"
)

// putBack replaces the directory of a stopped server with a copy.
func (s *server) putBack(from string) {
	s.g.t.Helper()
	if err := os.RemoveAll(s.dir); err != nil {
		s.g.t.Fatal(err)
	}
	if err := os.CopyFS(s.dir, os.DirFS(from)); err != nil {
		s.g.t.Fatal(err)
	}
}

// copied returns a copy of the directory of a server.
func (s *server) copied() string {
	s.g.t.Helper()
	to := filepath.Join(s.g.t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(s.dir)); err != nil {
		s.g.t.Fatal(err)
	}
	return to
}

// setTerm has a stopped server know of a term.
func (s *server) setTerm(t *testing.T, term uint64) {
	t.Helper()
	log, err := raftlog.Open(vfs.OS, filepath.Join(s.dir, "cluster", "log"), raftlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.SetUint64([]byte("CurrentTerm"), term), log.Close()); err != nil {
		t.Fatal(err)
	}
}

// leftWith awaits that a server has set its directory aside and is in again under another
// id, says so, and that an administrator can open what it has set aside.
func (g *group) leftWith(name, id string, lines int, because string) {
	g.t.Helper()
	s := g.servers[name]
	g.await(name+" is in again under another id", func() bool {
		n, _ := s.now()
		return n != nil && n.identity().ID != id && n.identity().Joined && n.replica.Ready()
	})
	g.voters("n1", "n2", "n3")
	leader := g.leader()
	g.await("the status names what was set aside", func() bool {
		n, _ := leader.now()
		if n == nil {
			return false
		}
		status := n.Status()
		return strings.Contains(strings.Join(status.Degraded(), "\n"), name+" has set aside in "+filepath.Join(s.dir, "set-aside-1"))
	})
	n, _ := s.now()
	if ok, text := n.Health(); !strings.Contains(text, because) || !strings.Contains(text, "set-aside-1") {
		g.t.Errorf("health of %s: %v %s", name, ok, text)
	}
	left := filepath.Join(s.dir, "set-aside-1")
	if _, err := Leave(g.t.Context(), vfs.OS, left, 0); err != nil {
		g.t.Fatal(err)
	}
	if got := len(linesOf(g.t, left)); got != lines {
		g.t.Errorf("%d lines were set aside, want %d", got, lines)
	}
	if err := os.RemoveAll(left); err != nil {
		g.t.Fatal(err)
	}
	n.lookAside()
	if ok, text := n.Health(); !ok || strings.Contains(text, "set-aside") {
		g.t.Errorf("health of %s after that: %v %s", name, ok, text)
	}
}

// TestOldCopy has a node start with an older copy of its directory, when only it and one
// that was away are there: neither has what two others have acknowledged.
func TestOldCopy(t *testing.T) {
	for name, take := range map[string]func(g *group, s *server) (dir string){
		// The copy was made while the node was down: the next start has the age that the
		// copy begins with.
		"between starts": func(g *group, s *server) string {
			s.stop()
			dir := s.copied()
			s.start()
			g.voters("n1", "n2", "n3")
			return dir
		},
		// It was made while the node ran, and the node has not started again since.
		"in one life": func(g *group, s *server) string {
			dir := s.copied()
			n, _ := s.now()
			if err := n.ages.Raise(n.log); err != nil { // as every minute
				t.Fatal(err)
			}
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := settled(t)
			g.write("n1", "d", 0, 100)
			g.equal("n1", "n2", "n3")
			s := g.servers["n2"]
			old := take(g, s)
			lines := len(s.content())
			n, _ := s.now()
			id := n.identity().ID
			age := n.ages.Own(id)
			g.await("n3 has seen the age", func() bool {
				n, _ := g.servers["n3"].now()
				return n.ages.Seen()[id] == age
			})
			n3, _ := g.servers["n3"].now()
			if err := n3.ages.Save(n3.log, n3.members()); err != nil { // as every minute
				t.Fatal(err)
			}
			g.servers["n3"].stop()
			g.write("n1", "d", 100, 100)
			acknowledged := g.servers["n1"].content()
			g.servers["n1"].stop()
			s.stop()
			s.putBack(old)
			g.start("n2", "n3")
			says := func() bool {
				n, _ := g.servers["n3"].now()
				if n == nil {
					return false
				}
				for _, m := range n.Status().Members {
					if m.Name == "n2" && strings.Contains(m.Problem, "this directory is an old copy of that of "+id) {
						return true
					}
				}
				return false
			}
			g.await("n3 says that n2 has an old copy", says)
			s.stop()
			s.start() // its age grows with each start
			g.await("n3 still says so", says)
			if n, _ := g.servers["n3"].now(); n.Leads() {
				t.Error("n3 leads with the vote of an old copy")
			}
			g.start("n1")
			g.leftWith("n2", id, lines, "old copy")
			g.equal("n1", "n2", "n3")
			if got := g.servers["n2"].content(); len(got) != len(acknowledged) {
				t.Errorf("%d lines, %d were acknowledged", len(got), len(acknowledged))
			}
			g.write("n2", "d", 200, 100)
			g.equal("n1", "n2", "n3")
			if v := g.verify("n1"); !v.Equal {
				t.Errorf("%+v", v)
			}
			var status admin.Status
			if g.operate("n1", "GET status", &status); len(status.Degraded()) > 0 {
				t.Errorf("%q", status.Degraded())
			}
		})
	}
}

// TestContradicted has an old copy taken for the node that it was, because the only other
// one that is there cannot know. The node that has what was acknowledged comes back, finds
// that its entries are to go, and sets them aside.
func TestContradicted(t *testing.T) {
	for name, flushed := range map[string]time.Duration{"in files": 0, "in the log": -1} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, "n1", "n2", "n3")
			g.server("n1").store.CloseFlush = flushed
			g.start("n1", "n2", "n3")
			g.voters("n1", "n2", "n3")
			g.done("n1", "POST transfer-leader?name=n1")
			g.await("n1 leads", func() bool { n, _ := g.servers["n1"].now(); return n != nil && n.Leads() })
			g.create("n1", "d")
			g.write("n1", "d", 0, 100)
			g.equal("n1", "n2", "n3")
			first, s := g.servers["n1"], g.servers["n2"]
			n, _ := first.now()
			id := n.identity().ID
			for range 9 { // minutes
				if err := n.ages.Raise(n.log); err != nil {
					t.Fatal(err)
				}
			}
			g.servers["n3"].stop()
			s.stop()
			old := s.copied()
			s.start()
			g.write("n1", "d", 100, 100)
			g.await("n2 has all", func() bool { return len(s.content()) == len(first.content()) })
			lines := len(first.content())
			g.await("the log says that all is committed", func() bool { return n.log.Committed() >= n.replica.Stats().Index })
			first.stop()
			s.stop()
			s.putBack(old)
			g.servers["n3"].setTerm(t, 50) // else the old copy could vote twice in a term
			g.start("n2", "n3")
			g.leader()
			g.write("n2", "d", 1000, 50)
			first.start()
			g.leftWith("n1", id, lines, "without what this node knows to be acknowledged")
			g.equal("n1", "n2", "n3")
			g.write("n1", "d", 2000, 50)
			g.equal("n1", "n2", "n3")
			if v := g.verify("n1"); !v.Equal {
				t.Errorf("%+v", v)
			}
		})
	}
}
