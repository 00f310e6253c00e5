package store

import (
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard/repair"
	"tsdbd/store/cardinality"
)

// database is an open database: its series file and the parser's table.
type database struct {
	id     uint32
	name   string
	dir    string
	series *series.File
	table  atomic.Pointer[point.Table]
	tabled atomic.Int64  // bytes of the table in Store.tables
	refs   atomic.Int64  // views, and one while it is open
	closed chan struct{} // closed with the last of refs

	syncAt time.Time // after a failed syncSeries, when to try again; the flush loop's

	cardinality *cardinality.Counter
	damage      atomic.Pointer[error] // of the series file, found while reading
	dropped     atomic.Bool           // the reference of being open is given back
	refused     refusedSeries
	quarantine  *repair.Quarantine
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
	if db.refs.Add(-1) > 0 {
		return nil
	}
	defer close(db.closed)
	return db.series.Close()
}

// refusedSeries are series whose write was refused, and whose ids are claims that
// perhaps no other write has confirmed.
type refusedSeries struct {
	sync.Mutex
	list []*point.Series
}
