package raftlog

import (
	"errors"
	"syscall"
	"testing"

	"tsdbd/internal/vfs/vfstest"
)

// TestCommitIndex keeps the commit index: with the next batch, by itself where nothing else
// is written, and with the end of the log.
func TestCommitIndex(t *testing.T) {
	f, s := newLog(t, small)
	kill := func() *Store {
		t.Helper()
		must(t, s.closeFiles(s.segments)) // as a kill does
		return mustOpen(t, f, small)
	}
	want := func(what string, index uint64) {
		t.Helper()
		if got := s.Committed(); got != index {
			t.Fatalf("%s: commit index %d, want %d", what, got, index)
		}
	}
	must(t, s.SaveCommit())
	s.Commit(3) // which an empty log cannot know
	must(t, s.SaveCommit())
	want("an empty log", 0)
	must(t, s.StoreLogs(entries(1, 4, 1)))
	want("a first batch", 0)
	must(t, s.StoreLogs(entries(5, 6, 1)))
	s = kill()
	want("the next batch", 3)
	s.Commit(5)
	s.Commit(4)
	s = kill()
	want("nothing written", 3)
	s.Commit(5)
	must(t, s.SaveCommit())
	syncs := s.Stats().Syncs
	must(t, s.SaveCommit())
	if s.Stats().Syncs != syncs {
		t.Error("the same commit index was written twice")
	}
	s = kill()
	want("saved", 5)
	s.Commit(6)
	must(t, s.Close())
	s = mustOpen(t, f, small)
	want("closed", 6)
	must(t, s.StoreLogs(entries(7, 9, 1)))
	must(t, s.SetBase(8, 1, 80, 0))
	want("below the base", 8)
	s = kill()
	want("below the base", 8)
	if r, err := Inspect(f, testDir, nil); err != nil || r.Committed != 8 {
		t.Errorf("inspect: %d, %v", r.Committed, err)
	}
	must(t, compare(s, 1, 9, always(1)))
	must(t, s.Close())
}

// TestTruncateCommitted refuses to delete what is committed, after a restart as well.
func TestTruncateCommitted(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 9, 1)))
	s.Commit(5)
	refused := func() {
		t.Helper()
		for _, from := range []uint64{1, 4, 5} {
			if err := s.DeleteRange(from, 9); !errors.Is(err, ErrCommitted) {
				t.Fatalf("delete from %d on: %v", from, err)
			}
		}
	}
	refused()
	must(t, s.SaveCommit())
	must(t, s.closeFiles(s.segments))
	s = mustOpen(t, f, small)
	refused()
	must(t, compare(s, 1, 9, always(1)))
	must(t, s.DeleteRange(6, 9))
	must(t, s.StoreLogs(entries(6, 7, 2)))
	must(t, s.Close())
	s = mustOpen(t, f, small)
	must(t, compare(s, 1, 7, func(i uint64) uint64 { return 1 + i/6 }))
	must(t, s.Close())
}

// TestSaveCommitFull has a full disk, which costs the commit index and no entry.
func TestSaveCommitFull(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 3, 1)))
	s.Commit(3)
	f.SetHook(func(op vfstest.Op) error {
		if op.Kind == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	must(t, s.SaveCommit())
	f.SetHook(nil)
	must(t, s.StoreLogs(entries(4, 5, 1)))
	must(t, s.Close())
	s = mustOpen(t, f, small)
	must(t, compare(s, 1, 5, always(1)))
	if s.Committed() != 3 {
		t.Errorf("commit index %d", s.Committed())
	}
	must(t, s.Close())
}
