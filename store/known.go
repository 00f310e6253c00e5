package store

import (
	"errors"
	"io/fs"

	"tsdbd/internal/vfs"
	"tsdbd/wal"
)

// What the ledger is told of the log.

// noteSegment is told of each segment before it has an entry.
func (s *Store) noteSegment(number, sequence uint64) {
	err := s.ledger.setLog(func(k *wal.Known, relaxed *bool) {
		k.Segment, k.Sequence, k.Open, k.Told = number, sequence, true, false
		*relaxed = s.opt.SyncInterval > 0
	})
	if err != nil {
		s.logger.Warn("segment of the log not noted, its loss would not be noticed", "err", err)
	}
}

// noteReplay notes how far the log went at the start, or that what is missing at
// its end has been reported.
func (s *Store) noteReplay() {
	segment, sequence := s.log.End()
	err := s.ledger.setLog(func(k *wal.Known, _ *bool) {
		if s.log.LostEnd() {
			k.Told = true
		} else if !k.Told {
			k.Segment, k.Sequence = max(k.Segment, segment), sequence
		}
		k.Open = false
	})
	if err != nil {
		s.logger.Warn("end of the log not noted, its loss would not be noticed", "err", err)
	}
}

// noteEnd notes where the log was closed, and what every shard has in files.
func (s *Store) noteEnd(segment, sequence uint64) {
	covered := s.flushedUpTo(s.applied)
	err := s.ledger.setLog(func(k *wal.Known, _ *bool) {
		if !k.Told {
			k.Segment, k.Sequence = segment, sequence
		}
		k.Open, k.Covered = false, max(k.Covered, covered)
	})
	if err != nil {
		s.logger.Warn("end of the log not noted, its loss would not be noticed", "err", err)
	}
}

// noteTrim makes the ledger say which shards have files, before the log gives up
// entries that are in them, and that entries up to covered are. It reports
// whether the log may be trimmed. A full disk does not keep it from that: to
// trim the log makes room, and the ledger is only there to notice what is lost.
func (s *Store) noteTrim(covered uint64) bool {
	if err := s.sureOfNames(); err != nil {
		s.logger.Warn("log not trimmed", "err", err)
		return false
	}
	err := s.ledger.setLog(func(k *wal.Known, _ *bool) { k.Covered = max(k.Covered, covered) })
	if err != nil {
		s.logger.Warn("shards that have files not noted, their loss would not be noticed", "err", err)
	}
	return err == nil || vfs.IsFull(err)
}

// sureOfNames makes the manifests durable that the start has found and that
// cover entries which the log still has (W3): a server that was killed may have
// renamed them and not synced their names. It is done before the first trim and
// not at the start, where it would be in the way of thousands of shards.
func (s *Store) sureOfNames() error {
	s.unsure.Lock()
	defer s.unsure.Unlock()
	for len(s.unsure.dirs) > 0 {
		last := len(s.unsure.dirs) - 1
		if err := s.fs.SyncDir(s.unsure.dirs[last]); err != nil && !errors.Is(err, fs.ErrNotExist) { // dropped since
			return err
		}
		s.unsure.dirs = s.unsure.dirs[:last]
	}
	return nil
}

// flushedByAll returns the sequence up to which the files of every shard cover
// the log, 0 if a shard is not open.
func (s *Store) flushedByAll() uint64 {
	lowest, any := uint64(0), false
	for _, d := range s.catalog.Data().Databases {
		for _, rp := range d.RetentionPolicies {
			for i := range rp.ShardGroups {
				for _, m := range rp.ShardGroups[i].Shards {
					e := s.mu.shards[m.ID]
					if e == nil {
						return 0
					}
					if f := e.Flushed(); !any || f < lowest {
						lowest, any = f, true
					}
				}
			}
		}
	}
	return lowest
}
