package store

import (
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"tsdbd/column"
	"tsdbd/meta"
	"tsdbd/shard"
	"tsdbd/tsi"
)

// database is an open database: its series file and the parser's table.
type database struct {
	id     uint32
	name   string
	dir    string
	series *tsi.SeriesFile
	table  atomic.Pointer[column.Table]
	refs   atomic.Int64 // views, and one while it is open

	cardinality cardinality
	damage      atomic.Pointer[error] // of the series file, found while reading
	quarantined atomic.Pointer[shard.Quarantined]
}

func (s *Store) databaseDir(id uint32) string {
	return path.Join(s.dir, fmt.Sprintf("%s%d", databasePrefix, id))
}

func (s *Store) openDatabase(d *meta.Database) (*database, error) {
	db := &database{id: d.ID, name: d.Name, dir: s.databaseDir(d.ID)}
	if err := s.fs.MkdirAll(db.dir); err != nil {
		return nil, fmt.Errorf("open database %s: %w", d.Name, err)
	}
	series, err := tsi.OpenSeriesFile(s.fs, path.Join(db.dir, "series"), tsi.SeriesFileOptions{Logger: s.logger})
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", d.Name, err)
	}
	db.series = series
	db.cardinality.maxSeries, db.cardinality.maxValues = s.opt.MaxSeriesPerDatabase, s.opt.MaxValuesPerTag
	db.table.Store(column.NewTable(d.ID))
	db.refs.Store(1)
	if err := s.fs.SyncDir(s.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", d.Name, err), db.release())
	}
	s.mu.databases[d.ID] = db
	return db, nil
}

// acquire takes a reference, or returns false when the last is gone: the
// database was dropped or the store closed.
func (db *database) acquire() bool {
	for {
		n := db.refs.Load()
		if n <= 0 {
			return false
		}
		if db.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (db *database) release() error {
	if db.refs.Add(-1) == 0 {
		return db.series.Close()
	}
	return nil
}

// database returns the open database of that name.
func (s *Store) database(name string) (*database, error) {
	d := s.catalog.Data().Database(name)
	if d == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, name)
	}
	s.mu.RLock()
	db := s.mu.databases[d.ID]
	s.mu.RUnlock()
	if db != nil {
		return db, nil
	}
	return s.openedDatabase(d.ID)
}

// openedDatabase returns a database of the catalog, opening it if that has
// failed before, as on a full disk.
func (s *Store) openedDatabase(id uint32) (*database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if db := s.mu.databases[id]; db != nil {
		return db, nil
	}
	if s.mu.closed {
		return nil, ErrClosed
	}
	// A drop changes the catalog before it takes the database out of the map
	// under the lock, so this cannot open a dropped one for good.
	d := s.catalog.Data().DatabaseByID(id)
	if d == nil {
		return nil, meta.ErrDatabaseNotFound
	}
	return s.openDatabase(d)
}

// openShard opens a shard and makes it known. s.mu is held or nobody else
// knows the store yet.
func (s *Store) openShard(db *database, id uint64, g *meta.ShardGroup) (*shardEntry, error) {
	dir := path.Join(db.dir, fmt.Sprintf("%s%d", shardPrefix, id))
	sh, err := shard.Open(dir, id, shard.Options{FS: s.fs, Series: db.series, Range: g.TimeRange(), Logger: s.logger, Counters: &s.counters.files, Pace: s.pacer.pace})
	if err != nil {
		return nil, err
	}
	e := &shardEntry{Shard: sh, db: db}
	s.mu.shards[id] = e
	return e, nil
}

// Table returns the parser's table of a database. A batch parsed with it must
// be written to the same database.
func (s *Store) Table(name string) (*column.Table, error) {
	db, err := s.database(name)
	if err != nil {
		return nil, err
	}
	t := db.table.Load()
	if t.Bytes() > s.opt.SeriesTableBytes {
		// Series met again are looked up in the series file, once each.
		fresh := column.NewTable(db.id)
		if db.table.CompareAndSwap(t, fresh) {
			return fresh, nil
		}
		t = db.table.Load()
	}
	return t, nil
}
