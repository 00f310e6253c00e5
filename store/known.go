package store

import (
	"errors"
	"path"

	"tsdbd/internal/vfs"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
	"tsdbd/store/touched"
	"tsdbd/wal"
)

// known returns what the ledger and the files say of the log.
func (s *Store) known() wal.Known {
	known, relaxed := s.ledger.Log()
	if known.Segment > 0 && !relaxed {
		known.Sequence = max(known.Sequence, s.applying.sequence) // it was in the log before it was in files
	}
	known.Covered = max(known.Covered, s.flushedByAll())
	return known
}

// Touched returns which windows of downsamples are to be computed.
func (s *Store) Touched() *touched.Marks { return s.touched }

// saveTouched saves the marks of touched windows. The catalog calls it before it saves
// a change that they follow from.
func (s *Store) saveTouched() error {
	if s.touched == nil {
		return nil // the catalog is being opened
	}
	return s.touched.Save(s.catalog.Data().Lineage)
}

// beforeTrim makes sure of what the log gives up (W3): the catalog has the changes, the
// marks of touched windows are saved, the manifests have their names, and the series files
// their series. The ledger notes which shards have files, that entries up to covered are in
// them, and which ids of series were given. A full disk does not keep the log of a single
// node from a trim for the ledger's sake: a trim makes room, and the ledger is only there to
// notice what is lost. Of a node of a cluster it keeps the others from an id given twice.
func (s *Store) beforeTrim(covered uint64) error {
	if err := errors.Join(s.catalog.Save(), s.saveTouched(), s.ledger.SyncNames(s.syncShardDir), s.sureOfSeries()); err != nil {
		return err
	}
	err := s.ledger.SetLog(func(k *wal.Known, _ *bool) { k.Covered = max(k.Covered, covered) })
	if err != nil {
		s.logger.Warn("shards that have files not noted, their loss would not be noticed", "err", err)
	}
	if vfs.IsFull(err) && !s.opt.Follower {
		return nil
	}
	return err
}

// syncShardDir makes the names of a shard's files durable.
func (s *Store) syncShardDir(shard uint64, database uint32) error {
	return s.fs.SyncDir(path.Join(s.dir, layout.ShardDir(database, shard)))
}

// sureOfSeries makes the series durable that the log has defined, and has the ledger note
// their ids. A log that others append to does not define them again behind its new
// beginning. Entries there may name series that no flush has written, for their shard was
// dropped before.
func (s *Store) sureOfSeries() error {
	var errs []error
	for _, db := range s.allDatabases() {
		if !db.acquire() {
			continue // dropped meanwhile
		}
		if err := s.ledger.SyncSeries(db.id, db.series); err != nil && !db.dropped.Load() {
			errs = append(errs, db.seriesError(err))
		}
		errs = append(errs, db.release())
	}
	return errors.Join(errs...)
}

// flushedByAll returns the sequence up to which the files of every shard cover
// the log, 0 if a shard is not open.
func (s *Store) flushedByAll() uint64 {
	lowest, any := uint64(0), false
	for id := range s.catalog.Data().Shards() {
		e := s.mu.shards[id]
		if e == nil {
			return 0
		}
		if f := e.Flushed(); !any || f < lowest {
			lowest, any = f, true
		}
	}
	return lowest
}

// openLocalLog opens the log of a single node, in the data directory.
func (s *Store) openLocalLog(opt LogOptions) (Log, error) {
	about := ledger.LogOptions{
		Relaxed: s.opt.SyncInterval > 0, Known: s.known(), Covered: s.covered,
		Failed: func() bool { return s.failure.Load() != nil },
	}
	log, err := s.ledger.OpenLog(path.Join(s.dir, "wal"), about, wal.Options{
		FS: s.fs, SegmentBytes: s.opt.SegmentBytes, SyncInterval: s.opt.SyncInterval, Lineage: s.catalog.Data().Lineage,
		Apply: opt.Apply, OnFailure: opt.OnFailure, BeforeTrim: opt.BeforeTrim, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	return log, nil
}

// covered returns the sequence up to which every shard and the catalog have the log
// in files.
func (s *Store) covered() uint64 {
	if s.catalog.Unsaved() {
		return 0
	}
	return s.flushedUpTo(s.applying.sequence)
}
