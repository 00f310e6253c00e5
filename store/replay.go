package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/wal/entry"
)

// replayer applies what the log holds beyond the shards' files.
type replayer struct {
	s             *Store
	databases     map[uint32]*replayed
	dropped       map[uint64]bool // shards met that a later change has dropped
	entries, rows int
}

// replayed is a database with the series that rows have brought so far. Those
// of the entry at hand are restored together.
type replayed struct {
	*database
	seen  map[uint32]*seenPage // by id / len(seenPage)
	page  *seenPage            // the latest
	first uint32               // its first id
	from  uint64               // sequence of the first entry that names it
	ids   []model.SeriesID
	keys  []string
}

// seenPage holds the series of consecutive ids. The log has one
// *point.Series for a series, unless it gave the id to another key.
type seenPage [4096]*point.Series

// see takes note of the series of rows and collects those that are new.
func (d *replayed) see(rows []point.Row) {
	for i := range rows {
		sr := rows[i].Series
		id := uint32(sr.ID())
		slot := id % uint32(len(seenPage{}))
		if d.page == nil || id-slot != d.first {
			d.first = id - slot
			if d.page = d.seen[d.first]; d.page == nil {
				d.page = new(seenPage)
				d.seen[d.first] = d.page
			}
		}
		if d.page[slot] != sr {
			d.page[slot] = sr
			d.ids = append(d.ids, model.SeriesID(id))
			d.keys = append(d.keys, sr.Key())
		}
	}
}

// restore gives the collected series their ids.
func (d *replayed) restore() error {
	err := d.series.RestoreAll(d.ids, d.keys)
	clear(d.keys)
	d.ids, d.keys = d.ids[:0], d.keys[:0]
	if err != nil {
		return fmt.Errorf("database %s: %w", d.name, err)
	}
	return nil
}

func (r *replayer) entry(e *entry.Entry) error {
	r.pin(e)
	r.entries++
	if len(e.Command) > 0 {
		return r.command(e)
	}
	if err := r.place(e); err != nil {
		return err
	}
	for i := range e.Writes {
		w := &e.Writes[i]
		if d := r.database(w.Database, e.Sequence); d != nil && r.s.mu.shards[w.Shard] != nil {
			d.see(w.Rows)
			r.rows += len(w.Rows)
		}
	}
	if err := r.apply(e); err != nil {
		return err
	}
	for r.s.held() > r.s.opt.CacheBytes/4*3 && r.relieve(e.Sequence) {
	}
	return nil
}

// command makes a change of the catalog that its files lack.
func (r *replayer) command(e *entry.Entry) error {
	ch, err := meta.DecodeCommand(e.Command)
	if err != nil {
		return err
	}
	before := r.s.catalog.Data()
	r.s.apply(e)
	after := r.s.catalog.Data()
	if before.Applied >= e.Sequence {
		return nil
	}
	if meta.Frees(ch.Command) {
		for id := range before.ShardsWithout(after) {
			r.dropped[id] = true
		}
		maps.DeleteFunc(r.databases, func(id uint32, _ *replayed) bool { return after.DatabaseByID(id) == nil })
	}
	err = r.s.follow(ch.Command, before, after)
	if refusable(err) { // the others open
		return nil
	}
	if vfs.IsFull(err) { // a database without points, which its first use tries again to open
		r.s.logger.Error("database not opened, the disk is full", "err", err)
		return nil
	}
	return err
}

// place opens the shards that an entry names. A shard that the catalog does not
// have was dropped by a change that its files have, for the log has the changes in
// their order. If it was not, the entry cannot be placed: it counts as damaged, or
// the catalog is an older one.
func (r *replayer) place(e *entry.Entry) error {
	for i := range e.Writes {
		if err := r.placed(e.Sequence, e.Writes[i].Database, e.Writes[i].Shard, true); err != nil {
			return err
		}
	}
	for i := range e.Deletes {
		if err := r.placed(e.Sequence, e.Deletes[i].Database, e.Deletes[i].Shard, false); err != nil {
			return err
		}
	}
	return nil
}

// placed makes sure that a shard is open, if rows are to go there, or that it was
// dropped.
func (r *replayer) placed(sequence uint64, database uint32, id uint64, write bool) error {
	d := r.database(database, sequence)
	if r.s.mu.shards[id] != nil || r.dropped[id] || r.s.mu.refused[database] != nil {
		return nil
	}
	data := r.s.catalog.Data()
	at, ok := data.Shard(id)
	if ok = ok && at.Database.ID == database; ok && d != nil {
		if !write {
			return nil // nothing was ever written there
		}
		// Its directory was not yet made.
		sh, err := r.s.openShard(d.database, id, at.Group)
		if err != nil {
			return err
		}
		r.s.opened(sh)
		r.s.mu.shards[id] = sh
		return nil
	}
	if ok {
		return fmt.Errorf("shard %d: database %d is not open", id, database)
	}
	if sequence <= data.Applied && id <= data.LastShardID {
		r.dropped[id] = true
		return nil
	}
	if id > data.LastShardID && len(r.s.log.Damage()) == 0 {
		return fmt.Errorf("the log names shard %d: %w", id, ErrOlderCatalog)
	}
	return binio.Corruptf("", -1, "entry %d is for shard %d of database %d, which the catalog does not have", sequence, id, database)
}

// database returns an open database that the entry of that sequence names, or nil.
func (r *replayer) database(id uint32, sequence uint64) *replayed {
	d := r.databases[id]
	if db := r.s.mu.databases[id]; d == nil && db != nil {
		d = &replayed{database: db, seen: make(map[uint32]*seenPage), from: sequence}
		r.databases[id] = d
	}
	return d
}

// apply restores the series that an entry brings and applies it: beside each
// other, where there are many, for rows do not need the series file.
func (r *replayer) apply(e *entry.Entry) error {
	var first *replayed
	for i := range e.Writes {
		d := r.databases[e.Writes[i].Database]
		if d == nil || len(d.ids) == 0 || d == first {
			continue
		}
		if first == nil && len(e.Deletes) == 0 && len(d.ids) >= 256 {
			first = d
			continue
		}
		if err := r.restored(d, d.restore()); err != nil {
			return err
		}
	}
	if first == nil {
		r.s.apply(e)
		return nil
	}
	restored := make(chan error, 1)
	go func() { restored <- first.restore() }()
	r.s.apply(e)
	return r.restored(first, <-restored)
}

// restored takes the result of d.restore. Where series file and log contradict
// each other the database is refused, and the replay goes on without it.
func (r *replayer) restored(d *replayed, err error) error {
	if !errors.Is(err, series.ErrConflict) {
		return err
	}
	delete(r.databases, d.id)
	r.s.refuse(d.id, d.name, d.from, fmt.Errorf("%s contradicts the log: %w", d.seriesLog(), err))
	return r.s.unload(d.database)
}

// pin notes the first entry of each database that does not open: the log keeps
// it.
func (r *replayer) pin(e *entry.Entry) {
	if len(r.s.mu.refused) == 0 {
		return
	}
	note := func(id uint32) {
		if f := r.s.mu.refused[id]; f != nil && f.first == 0 {
			f.first = e.Sequence
		}
	}
	for i := range e.Writes {
		note(e.Writes[i].Database)
	}
	for i := range e.Deletes {
		note(e.Deletes[i].Database)
	}
}

// relieve flushes the shard with the largest cache, so that a log larger than
// the memory allowed can be replayed (W9). It returns false if that freed
// nothing: then replay goes on and memory grows.
func (r *replayer) relieve(sequence uint64) bool {
	var largest *shardEntry
	for _, e := range r.s.dirtyShards() {
		if largest == nil || e.ActiveBytes() > largest.ActiveBytes() {
			largest = e
		}
	}
	if largest == nil || largest.tries.pending != nil {
		return false
	}
	// Not at applied, which may be another shard's flushed sequence yet.
	snap := largest.Freeze(sequence)
	if snap == nil {
		return false
	}
	if err := r.s.writeFiles(context.Background(), largest.Shard, snap); err != nil {
		largest.tries.pending = snap
		r.s.logger.Error("flush failed, will be tried again", "shard", largest.ID(), "err", err)
		return false
	}
	r.s.updateUnflushed(largest)
	largest.idle.Store(false)
	return true
}

// apply makes a durable entry readable. The log calls it in sequence order.
func (s *Store) apply(e *entry.Entry) {
	s.applying.Lock()
	defer s.applying.Unlock()
	if len(e.Command) > 0 {
		s.applyCommand(e)
	}
	for i := range e.Writes {
		w := &e.Writes[i]
		sh := s.shard(w.Shard)
		if sh == nil {
			continue // dropped meanwhile
		}
		if first := sh.db.series.FirstClaim(); first != 0 {
			s.confirm(sh.db, first, w.Rows)
		}
		sh.Apply(e.Sequence, w.Rows, w.Values, w.Strings)
		s.dirty(sh)
		s.count(sh, sh.Bytes())
		if s.held() > s.opt.CacheBytes/2 || sh.ActiveBytes() > s.opt.FlushBytes {
			wake(s.wakeFlush)
		}
	}
	for i := range e.Deletes {
		s.applyDelete(e.Sequence, &e.Deletes[i])
	}
	s.applying.sequence = max(s.applying.sequence, e.Sequence)
	s.applying.at = time.Now()
}
