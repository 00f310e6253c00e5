package store

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/series"
	"tsdbd/shard/repair"
	"tsdbd/store/move"
	"tsdbd/wal"
)

// repairSeries makes a database's series file whole again where it is damaged.
func (s *Store) repairSeries(db *database, shards []*shardEntry) error {
	from := make([]repair.Shard, len(shards))
	for i, e := range shards {
		from[i] = e
	}
	var damage []error
	if found := db.damage.Swap(nil); found != nil {
		damage = append(damage, *found)
	}
	if err := repair.SeriesFile(db.series, from, damage, db.quarantine, s.logger.With("db", db.name)); err != nil {
		return fmt.Errorf("database %s: %w", db.name, err)
	}
	if len(damage) > 0 {
		// What the ledger has told is in quarantine: it is not told again.
		if err := s.ledger.SetLog(func(*wal.Known, *bool) {}); err != nil {
			s.logger.Warn("damage of the series file not noted, the next start tells it again", "db", db.name, "err", err)
		}
	}
	return nil
}

// seriesError remembers damage of the series file, so that the next round of
// compactions repairs it, and returns err.
func (db *database) seriesError(err error) error {
	if errors.Is(err, series.ErrLost) {
		err = fmt.Errorf("%w: %w", binio.Corruptf(db.seriesLog(), -1, "series lost"), err)
	}
	if err != nil && errors.Is(err, binio.ErrCorrupt) {
		found := err // a copy, so that err needs no memory of its own
		db.damage.CompareAndSwap(nil, &found)
	}
	return err
}

// file returns the series file for reads and claims, whose damage is remembered.
func (db *database) file() move.Series { return move.Series{File: db.series, Noted: db.seriesError} }

func (db *database) seriesLog() string { return path.Join(db.dir, "series", series.LogName) }

// setAside moves a directory that the server must not use to quarantine. On a
// full disk the directory stays where it is, and the next start tries again: a
// server that does not start could not be told to drop anything.
func (s *Store) setAside(q *repair.Quarantine, name string, why error) error {
	err := q.SetAside(name, why, repair.LossNone, "The server does not use it. Nothing in it was changed.")
	if vfs.IsFull(err) {
		s.logger.Error("directory not moved to quarantine, the disk is full", "err", err)
		return nil
	}
	return err
}

// metaAside returns what moves a damaged file of the directory of the catalog to quarantine.
func (s *Store) metaAside(effect string) func(name string, why error) error {
	return func(name string, why error) error {
		return s.quarantine.SetAside("meta/"+name, why, repair.LossNone, effect)
	}
}

// repairDamaged repairs the series files that were found damaged while open.
func (s *Store) repairDamaged() {
	s.mu.RLock()
	var damaged []*database
	for _, db := range s.mu.databases {
		if db.damage.Load() != nil && db.acquire() {
			damaged = append(damaged, db)
		}
	}
	s.mu.RUnlock()
	for _, db := range damaged {
		if err := s.repairSeries(db, s.shardsOf(db)); err != nil && !db.dropped.Load() {
			s.logger.Error("series file not repaired, the next start will try", "db", db.name, "err", err)
		}
		_ = db.release()
	}
}

// quarantineCheck is how often the quarantine is looked at: an operator clears
// a loss by removing the files there.
const quarantineCheck = 2 * time.Second

// checkQuarantine notices what an operator has taken out of quarantine.
func (s *Store) checkQuarantine() {
	for q := range s.quarantines() {
		if len(q.List()) > 0 {
			if err := q.Read(); err != nil {
				s.logger.Warn("quarantine not read", "err", err)
			}
		}
	}
	if len(s.logLosses()) > 0 {
		s.readLogLosses()
	}
}

// logLosses returns the damaged spans of the log that are in its quarantine. The caller owns
// the list.
func (s *Store) logLosses() []scan.Loss {
	if list := s.logLost.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// readLogLosses reads the quarantine of the log.
func (s *Store) readLogLosses() {
	names, err := wal.Lost(s.fs, path.Join(s.dir, "wal"))
	if err != nil {
		s.logger.Warn("quarantine of the log not read", "err", err)
		return
	}
	var list []scan.Loss
	for _, name := range names {
		list = append(list, scan.Loss{Range: model.AllTime, Path: name, ID: path.Base(name)})
	}
	s.logLost.Store(&list)
}

// quarantines returns those of the data directory, its databases, and shards, with the
// ids of the shards.
func (s *Store) quarantines() map[*repair.Quarantine]uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[*repair.Quarantine]uint64{s.quarantine: 0}
	for id, e := range s.mu.shards {
		out[e.Quarantine()] = id
	}
	for _, db := range s.mu.databases {
		out[db.quarantine] = 0
	}
	return out
}
