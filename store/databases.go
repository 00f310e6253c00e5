package store

import (
	"errors"
	"fmt"
	"path"

	"tsdbd/internal/identity"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
	"tsdbd/store/cardinality"
	"tsdbd/store/layout"
)

func (s *Store) databaseDir(id uint32) string {
	return path.Join(s.dir, layout.DatabaseDir(id))
}

// openDatabase opens a database, which the caller makes known.
func (s *Store) openDatabase(d *meta.Database) (*database, error) {
	db := &database{id: d.ID, name: d.Name, dir: s.databaseDir(d.ID), closed: make(chan struct{})}
	db.quarantine = repair.NewQuarantine(s.fs, db.dir, s.logger)
	if err := db.quarantine.Read(); err != nil {
		return nil, err
	}
	if err := s.fs.MkdirAll(db.dir); err != nil {
		return nil, fmt.Errorf("open database %s: %w", d.Name, err)
	}
	series, err := series.Open(s.fs, path.Join(db.dir, "series"), series.Options{
		Identity: identity.Database{Lineage: s.catalog.Data().Lineage, ID: d.ID}, Pending: &s.memory.pending, Cache: s.keys, Logger: s.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", d.Name, err)
	}
	db.series = series
	if err := s.ledger.Reserve(d.ID, series); err != nil {
		db.damage.Store(&err)
	}
	db.cardinality = cardinality.New(&s.bounds)
	db.table.Store(point.NewTable(d.ID))
	db.refs.Store(1)
	if err := s.fs.SyncDir(s.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", d.Name, err), db.release())
	}
	return db, nil
}

// database returns the open database of that name.
func (s *Store) database(name string) (*database, error) {
	d := s.catalog.Data().Database(name)
	if d == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, name)
	}
	return s.openedDatabase(d.ID)
}

// acquire returns a database of that name, with a reference that the caller gives back.
func (s *Store) acquire(name string) (*database, error) {
	db, err := s.database(name)
	if err == nil && !db.acquire() {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, name)
	}
	return db, err
}

// openedDatabase returns a database of the catalog, opening it if that has
// failed before, as on a full disk.
func (s *Store) openedDatabase(id uint32) (*database, error) {
	if db, err := s.lookUp(id); db != nil || err != nil {
		return db, err
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if db, err := s.lookUp(id); db != nil || err != nil {
		return db, err
	}
	d := s.catalog.Data().DatabaseByID(id)
	if d == nil {
		return nil, meta.ErrDatabaseNotFound
	}
	db, err := s.openDatabase(d)
	if layout.Refusable(err) {
		s.refuse(id, d.Name, 0, err)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A drop changes the catalog before it takes the database out of the map
	// under the lock, so this cannot make a dropped one known for good.
	switch {
	case s.mu.closed:
		err = ErrClosed
	case s.catalog.Data().DatabaseByID(id) == nil:
		err = meta.ErrDatabaseNotFound
	default:
		s.mu.databases[id] = db
		return db, nil
	}
	// The drop may have removed the directory before it was made again.
	err = errors.Join(err, db.release())
	if errors.Is(err, meta.ErrDatabaseNotFound) {
		err = errors.Join(err, s.fs.RemoveAll(db.dir))
	}
	return nil, err
}

// openShard opens a shard, which the caller makes known. renew is for shard.Options.
func (s *Store) openShard(db *database, id uint64, g *meta.ShardGroup, renew func(*manifest.Manifest) error) (*shardEntry, error) {
	dir := path.Join(db.dir, fmt.Sprintf("%s%d", layout.ShardPrefix, id))
	sh, err := shard.Open(dir, id, shard.Options{FS: s.fs, Series: db.series, Range: g.TimeRange(), Lineage: s.catalog.Data().Lineage, Known: s.ledger.Known(id), LogAfter: s.logAfter, Logger: s.logger, Counters: &s.counters.Files, Pace: s.pacer.Pace, Slabs: s.slabs, MergeBytes: s.opt.MergeBytes, Cold: s.opt.Cold, Renew: renew})
	if err != nil {
		return nil, err
	}
	return &shardEntry{Shard: sh, db: db}, nil
}

// Table returns the parser's table of a database. A batch parsed with it must
// be written to the same database.
func (s *Store) Table(name string) (*point.Table, error) {
	db, err := s.database(name)
	if err != nil {
		return nil, err
	}
	t := db.table.Load()
	if now := t.Bytes(); s.memory.tables.Add(now-db.tabled.Swap(now)) > s.opt.SeriesTableBytes {
		s.boundTables()
		t = db.table.Load()
	}
	return t, nil
}

// boundTables trims the largest tables until all together are within their bound (W9): series come
// and go, tables only grow. Series met again are looked up in the series file, once each.
func (s *Store) boundTables() {
	empty := point.NewTable(0).Bytes()
	for {
		largest, most := s.largestTable()
		if s.memory.tables.Load() <= s.opt.SeriesTableBytes || most <= empty {
			return
		}
		t := largest.table.Load()
		largest.table.CompareAndSwap(t, t.Trim()) // Retire may have put an empty one there
	}
}

// largestTable returns the database with the largest table and its size, and sums up the sizes.
func (s *Store) largestTable() (largest *database, most int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	total := int64(0)
	for _, db := range s.mu.databases {
		n := db.table.Load().Bytes()
		db.tabled.Store(n)
		if total += n; n > most {
			largest, most = db, n
		}
	}
	s.memory.tables.Store(total)
	return largest, most
}
