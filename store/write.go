package store

import (
	"context"
	"errors"
	"fmt"

	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/shard"
	"tsdbd/store/cardinality"
	"tsdbd/store/route"
	"tsdbd/wal/entry"
)

// Write makes the points of a batch durable and readable. Points that cannot
// be stored are dropped, and a *point.PartialWriteError says so; all others are
// durable then. Any other error means that nothing of the batch was stored.
// The batch is the caller's again when Write returns.
func (s *Store) Write(ctx context.Context, database, policy string, b *point.Batch) error {
	if len(b.Rows) == 0 {
		return nil
	}
	size := int64(len(b.Values)+2*len(b.Rows))*8 + int64(len(b.Strings))
	if !s.admit(size) {
		return s.refuseRows(len(b.Rows))
	}
	defer s.memory.reserved.Add(-size)
	takeBack := func() {}
	defer func() { takeBack() }() // without the gate
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := s.writable(); err != nil {
		return err
	}
	db, err := s.database(database)
	if err != nil {
		return err
	}
	if b.Database != db.id {
		// The database was dropped and made again since the parse.
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, database)
	}
	rp, err := s.catalog.Data().RetentionPolicy(database, policy)
	if err != nil {
		return err
	}
	w := &write{s: s, db: db, frees: b.Frees}
	r := route.Router{
		Store: w, Batch: b, Policy: rp, Now: s.opt.Now().UnixNano(), Pool: &s.rows, Table: db.table.Load,
		Database: db.name, Series: db.series, Counter: db.cardinality, ValidateKeys: s.validateKeys,
		Staging: !b.Staged && (rp.Downsampled != nil || s.catalog.Data().Database(database).Downsample(rp.Name) != nil),
	}
	if b.Staged { // the rows that they are made of had none of these limits
		open := *rp
		open.Duration, open.PastWriteLimit, open.FutureWriteLimit = 0, 0, 0
		r.Policy, r.Counter, r.ValidateKeys = &open, cardinality.New(&cardinality.Bounds{}), false
	}
	defer func() {
		r.Release()
		s.memory.reserved.Add(-w.reserved)
	}()
	if err := r.Route(ctx); err != nil {
		switch {
		case errors.Is(err, errNoRoom):
			return s.refuseRows(len(b.Rows))
		case errors.Is(err, ErrTooManyMeasurements):
			s.counters.Refused.Add(int64(len(b.Rows)))
			return err
		}
		s.counters.Failed.Add(int64(len(b.Rows)))
		return s.refusal(err)
	}
	if len(r.Targets) > 0 {
		e := entry.Entry{}
		if b.Frees {
			e.Reserve = 2
		}
		for i := range r.Targets {
			if t := &r.Targets[i]; len(t.Rows) > 0 {
				e.Writes = append(e.Writes, entry.Write{Database: db.id, Shard: t.Shard.ID(), Rows: t.Rows, Values: b.Values, Strings: b.Strings})
			}
		}
		if len(e.Writes) > 0 {
			err := ctx.Err() // a client that is gone may have written newer points
			if err == nil {
				err = s.log.Append(&e)
			}
			if err != nil {
				if len(r.Claims) > 0 {
					db.refused.Lock()
					db.refused.list = append(db.refused.list, r.Claims...)
					db.refused.Unlock()
					if !errors.Is(err, ErrNotLeader) { // else Retire does it
						takeBack = func() { s.takeBack(db) }
					}
				}
				s.counters.Failed.Add(int64(len(b.Rows)))
				return s.refusal(err)
			}
			s.space.Passed()
		}
	}
	s.counters.Points.Add(int64(len(b.Rows) - r.Dropped))
	s.counters.Values.Add(int64(len(b.Values)))
	s.counters.Dropped.Add(int64(r.Dropped))
	s.counters.Over.Add(int64(r.Over))
	if r.Over > 0 && !db.cardinality.Logged.Swap(true) {
		s.logger.Warn("a limit of cardinality is reached, new series are refused", "db", database)
	}
	if r.Reason != "" {
		return &point.PartialWriteError{Reason: r.Reason, Dropped: r.Dropped, Database: database, RetentionPolicy: rp.Name}
	}
	return nil
}

// refuseRows refuses a write of n rows for which there is no memory.
func (s *Store) refuseRows(n int) error {
	s.counters.Refused.Add(int64(n))
	wake(s.wakeFlush)
	return s.overloaded()
}

// admit reserves memory for a write and reports whether there is room.
func (s *Store) admit(size int64) bool {
	if s.held()+s.memory.reserved.Add(size)+s.exemplars.Bytes() > s.opt.CacheBytes {
		s.memory.reserved.Add(-size)
		return false
	}
	return true
}

// write is a write on its way. It is the route.Store of its router.
type write struct {
	s        *Store
	db       *database
	frees    bool // it makes room on a full disk
	reserved int64
}

// errNoRoom says that there is no memory for new series or measurements.
var errNoRoom = errors.New("no memory for new series")

// Reserve implements route.Store.
func (w *write) Reserve(bytes int64) error {
	if w.reserved+bytes > w.s.opt.CacheBytes {
		return ErrTooManyMeasurements
	}
	return w.ReserveKeys(bytes)
}

// ReserveKeys implements route.Store.
func (w *write) ReserveKeys(bytes int64) error {
	if !w.s.admit(bytes) {
		return errNoRoom
	}
	w.reserved += bytes
	return nil
}

// MakeGroups implements route.Store.
func (w *write) MakeGroups(policy string, times []int64) (*meta.RetentionPolicy, error) {
	if err := w.s.submit(meta.CreateShardGroups{Database: w.db.name, RetentionPolicy: policy, Times: times, Frees: w.frees}); err != nil {
		return nil, fmt.Errorf("create shard group: %w", err)
	}
	return w.s.catalog.Data().RetentionPolicy(w.db.name, policy)
}

// Shards implements route.Store.
func (w *write) Shards() (list []*shard.Shard) {
	for _, e := range w.s.shardsOf(w.db) {
		list = append(list, e.Shard)
	}
	return list
}

// Shard implements route.Store.
func (w *write) Shard(g *meta.ShardGroup) (*shard.Shard, error) {
	e, err := w.s.shardOf(w.db, g)
	if err != nil {
		return nil, err
	}
	return e.Shard, nil
}

// shardOf returns the shard of a group, made if needed.
func (s *Store) shardOf(db *database, g *meta.ShardGroup) (*shardEntry, error) {
	id := g.Shards[0].ID
	if e := s.shard(id); e != nil {
		return e, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if e := s.shard(id); e != nil {
		return e, nil
	}
	e, err := s.openShard(db, id, g, nil)
	if err != nil {
		return nil, err
	}
	s.opened(e)
	// The gate, which the caller holds, keeps drops and Close out.
	s.mu.Lock()
	s.mu.shards[id] = e
	s.mu.Unlock()
	return e, nil
}
