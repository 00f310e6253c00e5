package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
	"tsdbd/cluster/self"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/store"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// blind is a store that applies nothing.
type blind struct{}

func (blind) Lead()           {}
func (blind) Retire()         {}
func (blind) Applied() uint64 { return 0 }

// poison appends an entry to the log of a node that does not run, as a leader does that has
// given the id of the first series to another one, and an entry behind it.
func poison(t *testing.T, dir string, catalog *meta.Data) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	i, err := self.Read(vfs.OS, dir)
	must(err)
	log, err := raftlog.Open(vfs.OS, filepath.Join(dir, self.Dir, "log"), raftlog.Options{})
	must(err)
	_, network := raft.NewInmemTransport(raft.ServerAddress(i.Address))
	r, err := replica.New(replica.Options{ID: raft.ServerID(i.ID), Log: log, Transport: network, ElectionTimeout: 200 * time.Millisecond})
	must(err)
	_, err = r.OpenLog(store.LogOptions{
		Apply:   func(*entry.Entry) error { return nil },
		Follow:  func(context.Context, *entry.Entry) error { return nil },
		Resolve: func(uint32, model.SeriesID) (string, bool) { return "some", true },
	})
	must(err)
	must(r.Start(blind{}))
	for end := time.Now().Add(patience); !r.Leads(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody leads")
		}
	}
	database := catalog.Database("d")
	for shard := range database.Shards() {
		for _, id := range []uint32{1, 1000} {
			e := entrytest.Note(entrytest.Series(id), shard, 10, "poison")
			e.Writes[0].Database = database.ID
			must(r.Append(e))
		}
		break
	}
	must(errors.Join(r.Close(), network.Close(), log.Close()))
}

// files returns all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(name)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPoisonedEntry: an entry of the log that contradicts the data of a node keeps nobody
// from the rest, nor does one that no program reads. Leaving and exporting say which entry
// it is and change nothing; up to the entry before it both have everything.
func TestPoisonedEntry(t *testing.T) {
	for what, append := range map[string]func(t *testing.T, dir string, catalog *meta.Data){
		"an id of another series": poison,
		"another version": func(t *testing.T, dir string, _ *meta.Data) {
			log, err := raftlog.Open(vfs.OS, filepath.Join(dir, self.Dir, "log"), raftlog.Options{})
			if err != nil {
				t.Fatal(err)
			}
			last, err := log.LastIndex()
			if err == nil {
				err = log.StoreLogs([]*raft.Log{{Index: last + 1, Term: 9, Data: []byte{200}}})
			}
			if err := errors.Join(err, log.Close()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := newGroup(t, "n1")
			s := g.server("n1")
			s.store.CloseFlush = -1 // nothing is in files
			g.start("n1")
			g.create("n1", "d")
			g.write("n1", "d", 0, 300)
			n, st := s.now()
			want, sequence, catalog := s.content(), n.Position(), st.Catalog()
			s.stop()
			append(t, s.dir, catalog)

			before := files(t, s.dir)
			advice := fmt.Sprintf("entry of sequence %d of the node's log cannot be applied", sequence+1)
			until := fmt.Sprintf("-until %d leaves out this entry", sequence)
			_, err := Leave(t.Context(), vfs.OS, s.dir, 0)
			_, _, exported := OpenForReading(s.dir, 0)
			for what, err := range map[string]error{"leave": err, "export": exported} {
				if err == nil || !strings.Contains(err.Error(), advice) || !strings.Contains(err.Error(), until) {
					t.Errorf("%s: %v, want %q and %q", what, err, advice, until)
				}
			}
			export := func() {
				t.Helper()
				st, of, err := OpenForReading(s.dir, sequence)
				if err != nil {
					t.Fatal(err)
				}
				if got := (&server{g: g, st: st.Store}).content(); !slices.Equal(got, want) || of.Name != "n1" || of.Sequence != sequence {
					t.Errorf("exported %d lines of %+v, want %d up to %d", len(got), of, len(want), sequence)
				}
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}
			export()
			for name, now := range files(t, s.dir) {
				if before[name] != now {
					t.Errorf("%s has changed", name)
				}
			}
			i, err := self.Read(vfs.OS, s.dir)
			if err != nil || i.State != self.Member {
				t.Fatalf("the node is %+v, %v", i, err)
			}
			i.State, i.Reason = self.Left, "was removed"
			if err := self.Write(vfs.OS, s.dir, i); err != nil {
				t.Fatal(err)
			}
			export()

			left, err := Leave(t.Context(), vfs.OS, s.dir, sequence)
			if err != nil || left != (Left{"n1", sequence}) {
				t.Fatalf("%+v, %v", left, err)
			}
			single(t, s.dir, func(st *store.Store) {
				if got := (&server{g: g, st: st}).content(); !slices.Equal(got, want) {
					t.Errorf("%d lines, want %d", len(got), len(want))
				}
				put(t, st, "d", 1000, 10)
			})
		})
	}
}
