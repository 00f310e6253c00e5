package age

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/internal/vfs/vfstest"
)

// TestOlderThan: an age counts for the process that has said it first.
func TestOlderThan(t *testing.T) {
	f := func(said, seen Sighting, want bool) {
		t.Helper()
		if got := said.OlderThan(seen); got != want {
			t.Errorf("%v after %v: %v", said, seen, got)
		}
	}
	f(Sighting{Age: 1, Process: 7}, Sighting{}, false)
	f(Sighting{Age: 0, Process: 7}, Sighting{Age: 5, Process: 8}, false) // it knows no age
	f(Sighting{Age: 5, Process: 7}, Sighting{Age: 5, Process: 7}, false)
	f(Sighting{Age: 6, Process: 7}, Sighting{Age: 5, Process: 8}, false)
	f(Sighting{Age: 5, Process: 7}, Sighting{Age: 5, Process: 8}, true)
	f(Sighting{Age: 4, Process: 7}, Sighting{Age: 5, Process: 8}, true)
	f(Sighting{Age: 4, Process: 7}, Sighting{Age: 5, Process: 7}, false)              // it arrives late
	f(Sighting{Age: 9, Process: 7}, Sighting{Age: 5, Process: 8, Copied: true}, true) // the copy starts once more
	f(Sighting{Age: 9, Process: 8}, Sighting{Age: 5, Process: 8, Copied: true}, false)
	f(Sighting{Age: 3, Process: 7}, Sighting{Age: 5, Process: 7}, true) // a machine that was put back with its memory
}

// TestAgeBeforeLog: what a node hears before its log is open does not replace what the log
// has of the process that was first.
func TestAgeBeforeLog(t *testing.T) {
	fsys := vfstest.New()
	if err := raftlog.Create(fsys, "/log", raftlog.Base{}); err != nil {
		t.Fatal(err)
	}
	for age := uint64(1); age <= 3; age++ {
		log, err := raftlog.Open(fsys, "/log", raftlog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := New()
		if age > 1 {
			if err := a.Note("n2/1", Sighting{Age: 5, Process: 8}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Open(log, "n1/1"); err != nil || a.Own("n1/1").Age != age || a.Own("n1/2").Age != 0 {
			t.Fatal(err, a.Own("n1/1"), a.Own("n1/2"))
		}
		if err := a.Note("n2/1", Sighting{Age: 5, Process: 7}); err != nil {
			t.Error(err)
		}
		if err := a.Note("n2/1", Sighting{Age: 5, Process: 8}); err == nil {
			t.Error("another process may have the same age")
		}
		if err := errors.Join(a.Save(log, []raft.Server{{ID: "n2/1"}}), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
