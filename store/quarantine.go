package store

import (
	"fmt"
	"path"
	"sync/atomic"

	"tsdbd/internal/vfs"
	"tsdbd/shard"
)

// quarantine is what is in the quarantine of the data directory, or of a
// database's directory, as read last.
type quarantine struct {
	dir   string // that has the quarantine
	found atomic.Pointer[[]shard.Quarantined]
}

// read reads what is in quarantine.
func (q *quarantine) read(fsys vfs.FS) error {
	found, err := shard.ReadQuarantine(fsys, q.dir)
	if err != nil {
		return fmt.Errorf("read quarantine of %s: %w", q.dir, err)
	}
	q.found.Store(&found)
	return nil
}

// list returns what read has found.
func (q *quarantine) list() []shard.Quarantined {
	if found := q.found.Load(); found != nil {
		return *found
	}
	return nil
}

// setAside moves a directory in q.dir that the server must not use to quarantine.
// On a full disk the directory stays where it is, and the next start tries again:
// a server that does not start could not be told to drop anything.
func (s *Store) setAside(q *quarantine, name string, why error) error {
	const effect = "The server does not use it. Nothing in it was changed."
	set, err := shard.SetAside(s.fs, q.dir, name, why, shard.LossNone, effect)
	if vfs.IsFull(err) {
		s.logger.Error("directory not set aside, the disk is full", "path", path.Join(q.dir, name), "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	s.logger.Error("directory set aside", "path", path.Join(q.dir, name), "err", why, "quarantine", set.Path)
	return q.read(s.fs)
}
