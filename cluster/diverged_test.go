package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/cluster/self"
	ids "tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/series"
	"tsdbd/store"
	"tsdbd/store/layout"
)

// TestDiverged has a node with other series than the others copy their state, by itself.
func TestDiverged(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	s := g.servers["n3"]
	n, st := s.now()
	id, catalog := n.identity().ID, st.Catalog()
	s.stop()
	d := catalog.Database("d")
	f, err := series.Open(vfs.OS, filepath.Join(s.dir, layout.DatabaseDir(d.ID), "series"),
		series.Options{Identity: ids.Database{Lineage: catalog.Lineage, ID: d.ID}})
	if err != nil {
		t.Fatal(err)
	}
	for id := model.SeriesID(51); id <= 100; id++ { // the others have 50
		err = errors.Join(err, f.Restore(id, fmt.Sprint("phantom,n=", id)))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s.start()
	g.send("n1", "/write?db=d", "real v=1 1\n")
	g.await("n3 is in again under another id", func() bool {
		n, _ := s.now()
		return n != nil && n.identity().ID != id && n.identity().Joined
	})
	if _, err := os.Stat(filepath.Join(s.dir, "set-aside-1", "cluster", "log")); err != nil {
		t.Errorf("what n3 had is not set aside: %v", err)
	}
	g.voters("n1", "n2", "n3")
	g.write("n1", "d", 100, 100)
	g.equal("n1", "n2", "n3")
}

// TestDivergedAlone has no node that has applied an entry: the one that cannot apply it
// ends, for a state to copy there is none.
func TestDivergedAlone(t *testing.T) {
	g := settled(t)
	g.equal("n1", "n2", "n3")
	s := g.servers["n3"]
	n, _ := s.now()
	cause := fmt.Errorf("follow entry: %w", store.ErrDiverged)
	n.onFatal(cause)
	if err := s.ended(); !errors.Is(err, store.ErrDiverged) {
		t.Errorf("the node ends with %v", err)
	}
	if i := n.identity(); i.State != self.Member {
		t.Errorf("the node is to copy a state: %s, %s", i.State, i.Reason)
	}
}

// TestDivergedFromTwo has one sound node, and two that have gone wrong in ways of their
// own. The sound one cannot apply what they have applied, and must not copy either.
func TestDivergedFromTwo(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	// n2 has a point of its own in place of an entry of the log.
	s := g.servers["n2"]
	s.stop()
	g.send("n1", "/write?db=d", "other v=1 1\n")
	st, err := store.Open(s.dir, store.Options{RetentionInterval: -1, CloseFlush: patience})
	if err != nil {
		t.Fatal(err)
	}
	if err := (api{st}).do(httptest.NewRequest(http.MethodPost, "/write?db=d", nil), "other v=2 1\n"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Close(), os.RemoveAll(filepath.Join(s.dir, "wal"))); err != nil {
		t.Fatal(err)
	}
	s.start()
	g.voters("n1", "n2", "n3")
	if v := g.verify("n1"); v.Equal {
		t.Fatal("n2 does not differ")
	}
	third, _ := g.servers["n3"].now()
	g.send("n1", "/write?db=d", "more v=1 1\n")
	n1, _ := g.servers["n1"].now()
	g.await("n3 has applied all", func() bool { return third.Position() == n1.Position() })
	cause := fmt.Errorf("follow entry: %w", store.ErrDiverged)
	if err := third.replica.Close(); err != nil {
		t.Fatal(err)
	}
	g.send("n1", "/write?db=d", "again v=1 1\n")
	third.onFatal(cause)
	if err := g.servers["n3"].ended(); !errors.Is(err, store.ErrDiverged) || !errors.Is(err, errDiffer) {
		t.Errorf("the node ends with %v", err)
	}
	if i := third.identity(); i.State != self.Member {
		t.Errorf("the node is to copy a state: %s, %s", i.State, i.Reason)
	}
}
