package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/store/layout"
	"tsdbd/store/space"
	"tsdbd/wal/entry"
)

// follower applies the entries that this store did not append since it was opened:
// those that the log has at the start, and those of other nodes. One goroutine
// calls it at a time.
type follower struct {
	s             *Store
	databases     map[uint32]*followed // that the entry at hand names
	first         map[uint32]uint64    // sequence of the first entry that names a database
	dropped       map[uint64]bool      // shards met that the catalog's files know as dropped
	entries, rows int
	tries         int // space.Tries, less in tests
}

// newFollower returns the follower of a store.
func newFollower(s *Store) *follower {
	return &follower{s: s, databases: make(map[uint32]*followed), first: make(map[uint32]uint64), dropped: make(map[uint64]bool), tries: space.Tries}
}

// followed is a database with the series that the rows of the entry at hand have
// brought and that are to be restored together.
type followed struct {
	*database
	fresh []*point.Series // marked
}

// see collects the series of rows that were not seen before. The log has one
// *point.Series for a series, as long as its decoder remembers it.
func (d *followed) see(rows []point.Row) {
	for i := range rows {
		if sr := rows[i].Series; !sr.Mark() {
			d.fresh = append(d.fresh, sr)
		}
	}
}

// restore gives the collected series their ids.
func (d *followed) restore() error {
	ids, keys := make([]model.SeriesID, len(d.fresh)), make([]string, len(d.fresh))
	for i, sr := range d.fresh {
		ids[i], keys[i] = sr.ID(), sr.Key()
	}
	if err := d.series.RestoreAll(ids, keys); err != nil {
		return fmt.Errorf("database %s: %w", d.name, err)
	}
	d.fresh = nil
	return nil
}

// forget has the next attempt at the entry collect what was not restored.
func (d *followed) forget() {
	for _, sr := range d.fresh {
		sr.Unmark()
	}
	d.fresh = nil
}

// follow is LogOptions.Follow. It waits as long as the caches or the disk are full. Another
// error of the environment, as of a read or of too many open files, is no sign that this node
// has other data than the others: it is tried again for a while.
func (f *follower) follow(ctx context.Context, e *entry.Entry) error {
	s := f.s
	apply := func() error {
		if err := s.awaitRoom(ctx); err != nil {
			return err
		}
		return f.followNow(e)
	}
	retried := func(err error) {
		s.logger.Error("entry of the log not applied, will be tried again", "sequence", e.Sequence, "err", err)
	}
	return s.space.Retry(f.tries, apply, retried, func(d time.Duration) error { return s.rest(ctx, time.After(d), nil) })
}

// rest waits for one of two channels, or until ctx ends or the store closes.
func (s *Store) rest(ctx context.Context, over <-chan time.Time, made <-chan struct{}) error {
	select {
	case <-over:
	case <-made:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	}
	return nil
}

// awaitRoom waits until the caches have room for another entry (W9).
func (s *Store) awaitRoom(ctx context.Context) error {
	for s.held() > s.opt.CacheBytes {
		if p := s.failure.Load(); p != nil {
			return *p // nothing is flushed any more
		}
		wake(s.wakeFlush)
		if err := s.rest(ctx, time.After(100*time.Millisecond), s.roomMade); err != nil { // a drop makes room too
			return err
		}
	}
	return nil
}

// followNow applies an entry with the locks that its writer would hold: a delete, a move
// or a change of the catalog has the gate for itself.
func (f *follower) followNow(e *entry.Entry) error {
	s := f.s
	if len(e.Deletes) > 0 || e.Move != nil {
		s.deleting.RLock()
		defer s.deleting.RUnlock()
	}
	if len(e.Deletes)+len(e.Command) == 0 && e.Move == nil {
		s.gate.RLock()
		defer s.gate.RUnlock()
	} else {
		s.gate.Lock()
		defer s.gate.Unlock()
	}
	if err := s.writable(); !errors.Is(err, ErrNotLeader) {
		return cmp.Or(err, fmt.Errorf("follow entry %d: %w", e.Sequence, errLeads))
	}
	if len(e.Deletes) > 0 {
		s.counters.Deletes.Add(1)
	}
	if e.Move != nil {
		s.counters.Moves.Add(1)
	}
	if err := f.entry(e); err != nil {
		damaged := errors.Is(err, binio.ErrCorrupt) && len(e.Command) == 0 // a command is decoded here
		if damaged || errors.Is(err, layout.ErrOlderCatalog) || errors.Is(err, series.ErrConflict) {
			err = fmt.Errorf("%w: %w", ErrDiverged, err)
		}
		return fmt.Errorf("follow entry %d: %w", e.Sequence, err)
	}
	if len(e.Command) > 0 {
		s.removeLater()
	}
	return nil
}

// replay applies an entry that the log has at the start, and flushes if memory is
// short.
func (f *follower) replay(e *entry.Entry) error {
	if err := f.entry(e); err != nil {
		return err
	}
	for f.s.held() > f.s.opt.CacheBytes/4*3 && f.relieve(e.Sequence) {
	}
	return nil
}

func (f *follower) entry(e *entry.Entry) (err error) {
	clear(f.databases)
	defer func() {
		if err != nil {
			for _, d := range f.databases {
				d.forget()
			}
		}
	}()
	f.entries++
	if len(e.Command) > 0 {
		return f.command(e)
	}
	if err := f.place(e); err != nil {
		return err
	}
	for i := range e.Writes {
		w := &e.Writes[i]
		if d := f.database(w.Database, e.Sequence); d != nil { // also of a dropped shard: others have given the ids
			d.see(w.Rows)
			f.rows += len(w.Rows)
		}
	}
	return f.apply(e)
}

// command makes a change of the catalog that its files lack.
func (f *follower) command(e *entry.Entry) error {
	ch, err := meta.DecodeCommand(e.Command)
	if err != nil {
		return err
	}
	before := f.s.catalog.Data()
	if err := f.s.apply(e); err != nil {
		return err
	}
	after := f.s.catalog.Data()
	if before.Applied >= e.Sequence {
		return nil
	}
	clear(f.dropped) // no entry behind this one names a shard that was dropped before it
	if meta.Drops(ch.Command) {
		for id := range before.ShardsWithout(after) {
			f.dropped[id] = true
		}
	}
	err = f.s.bringInStep(ch.Command, before, after)
	if layout.Refusable(err) { // the others open
		return nil
	}
	if space.Environment(err) { // a database without points, which its first use tries again to open
		f.s.logger.Error("database not opened", "err", err)
		return nil
	}
	return err
}

// place opens the shards that an entry names. A shard that the catalog does not
// have was dropped by a change that its files have, for the log has the changes in
// their order. If it was not, the entry cannot be placed: it counts as damaged, or
// the catalog is an older one.
func (f *follower) place(e *entry.Entry) error {
	for i := range e.Writes {
		if err := f.placed(e.Sequence, e.Writes[i].Database, e.Writes[i].Shard, true); err != nil {
			return err
		}
	}
	for i := range e.Deletes {
		if err := f.placed(e.Sequence, e.Deletes[i].Database, e.Deletes[i].Shard, false); err != nil {
			return err
		}
	}
	if m := e.Move; m != nil {
		for i := range m.Changes {
			for _, at := range m.Changes[i].Shards {
				if err := f.placed(e.Sequence, m.Database, at.Shard, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// placed makes sure that a shard is open, if rows are to go there, or that it was
// dropped.
func (f *follower) placed(sequence uint64, database uint32, id uint64, write bool) error {
	f.database(database, sequence) // the first entry that names it counts
	if f.refused(database, sequence) || f.s.shard(id) != nil || f.dropped[id] {
		return nil
	}
	data := f.s.catalog.Data()
	at, ok := data.Shard(id)
	switch {
	case ok && at.Database.ID == database && !write:
		return nil // nothing was ever written there
	case ok && at.Database.ID == database:
		// Its directory was not yet made.
		db, err := f.s.openedDatabase(database)
		if f.refused(database, sequence) {
			return nil
		}
		if err == nil {
			_, err = f.s.shardOf(db, at.Group)
		}
		return err
	case sequence <= data.Applied && id <= data.LastShardID:
		f.dropped[id] = true
		return nil
	case id > data.LastShardID && len(f.s.log.Damage()) == 0:
		return fmt.Errorf("the log names shard %d: %w", id, layout.ErrOlderCatalog)
	}
	return binio.Corruptf("", -1, "entry %d is for shard %d of database %d, which the catalog does not have", sequence, id, database)
}

// refused reports whether a database does not open. The log keeps the first entry that names
// it, and all after that.
func (f *follower) refused(database uint32, sequence uint64) bool {
	if _, err := f.s.lookUp(database); err == nil {
		return false
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.mu.refused.Pin(database, sequence)
	return true
}

// database returns an open database that the entry of that sequence names, or nil.
func (f *follower) database(id uint32, sequence uint64) *followed {
	db, _ := f.s.lookUp(id)
	if db == nil {
		return nil
	}
	d := f.databases[id]
	if d == nil {
		d = &followed{database: db}
		f.databases[id] = d
		if f.first[id] == 0 {
			f.first[id] = sequence
		}
	}
	return d
}

// apply restores the series that an entry brings and applies it. At the start it does
// both at the same time if there are many series, because rows do not need the series
// file. A node that follows others has readers, which need the key of each row.
func (f *follower) apply(e *entry.Entry) error {
	if e.Move != nil {
		if err := f.restoreTargets(e); err != nil {
			return err
		}
	}
	var first *followed
	for i := range e.Writes {
		d := f.databases[e.Writes[i].Database]
		if d == nil || len(d.fresh) == 0 || d == first {
			continue
		}
		if first == nil && !f.s.opt.Follower && len(e.Deletes) == 0 && len(d.fresh) >= 256 {
			first = d
			continue
		}
		if err := f.restored(d, d.restore()); err != nil {
			return err
		}
	}
	if first == nil {
		return f.s.apply(e)
	}
	restored := make(chan error, 1)
	go func() { restored <- first.restore() }()
	err := f.s.apply(e)
	return errors.Join(err, f.restored(first, <-restored))
}

// restored takes the result of d.restore. Where series file and log contradict
// each other the database is refused, and the replay goes on without it. A node that
// follows others must not go on: it has other points than they have.
func (f *follower) restored(d *followed, err error) error {
	if !errors.Is(err, series.ErrConflict) || f.s.opt.Follower {
		return err
	}
	d.fresh = nil
	f.s.refuse(d.id, d.name, f.first[d.id], fmt.Errorf("%s contradicts the log: %w", d.seriesLog(), err))
	return f.s.unload(d.database)
}

// relieve flushes the shard with the largest cache, so that a log larger than
// the memory allowed can be replayed (W9). It returns false if that freed
// nothing: then replay goes on and memory grows.
func (f *follower) relieve(sequence uint64) bool {
	var largest *shardEntry
	for _, e := range f.s.dirtyShards() {
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
	if err := f.s.writeFiles(context.Background(), largest.Shard, snap); err != nil {
		largest.tries.pending = snap
		f.s.logger.Error("flush failed, will be tried again", "shard", largest.ID(), "err", err)
		return false
	}
	f.s.updateUnflushed(largest)
	largest.merges.Changed()
	return true
}

// apply makes a durable entry readable. The log calls it in sequence order. After an error
// nothing of the entry is applied, and the store must not go on.
func (s *Store) apply(e *entry.Entry) error {
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
		s.touched.Write(e.Sequence, w.Shard, w.Rows)
		sh.Apply(e.Sequence, w.Rows, w.Values, w.Strings)
		s.dirty(sh)
		s.count(sh, sh.Bytes())
		if s.held() > s.opt.CacheBytes/2 || s.large(sh, sh.ActiveBytes()) {
			wake(s.wakeFlush)
		}
	}
	s.applyDeletes(e)
	if e.Move != nil {
		if err := s.applyMove(e.Sequence, e.Move); err != nil {
			return err
		}
	}
	if x := e.Exemplars; x != nil {
		if err := s.exemplars.Apply(x.Database, x.List); err != nil { // its checksum held: a bug of ours
			s.logger.Error("exemplars in log unreadable", "err", err)
		}
	}
	s.applying.sequence = max(s.applying.sequence, e.Sequence)
	s.applying.at = time.Now()
	return nil
}
