package raftlog

import (
	"errors"

	"tsdbd/internal/vfs"
)

// ErrCommitted is in the error of a DeleteRange that would remove committed entries: this
// log, or that of the leader, is not what it was.
var ErrCommitted = errors.New("entries are committed, so nothing may replace them: this log or that of the leader is not what it was, as after an old copy of a data directory was started")

// Commit notes that the entries up to index are committed. Every batch from now on says
// so. An index below the one before changes nothing.
func (s *Store) Commit(index uint64) {
	for {
		before := s.staged.Load()
		if index <= before || s.staged.CompareAndSwap(before, index) {
			return
		}
	}
}

// Committed returns an index up to which the entries of the log are committed, as far as the
// log says it on the disk. More may be.
func (s *Store) Committed() uint64 { return max(s.kept.Load(), s.Base().Index) }

// SaveCommit writes what Commit has noted, if no batch says it yet. It needs a sync, so it
// is for a log that has nothing else to write. It does nothing where there is no room in
// the last segment, or while entries are written: their batch, or the next one, says it.
func (s *Store) SaveCommit() error {
	if !s.writing.TryLock() {
		return nil
	}
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if min(s.staged.Load(), s.next-1) <= s.Committed() || s.spoiled || len(s.segments) == 0 {
		return nil
	}
	g := s.segments[len(s.segments)-1]
	if !g.room(batchHeaderBytes + 1) {
		return nil
	}
	if err := s.writeMark(g, kindCommit, s.next-1); !vfs.IsFull(err) {
		return err
	}
	return nil
}
