package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"time"

	"tsdbd/internal/pulse"
	"tsdbd/internal/vfs"
	"tsdbd/shard"
	"tsdbd/store/move"
)

// flushLoop flushes shards as they need it and trims the log.
func (s *Store) flushLoop(ctx context.Context) {
	tick := pulse.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wakeFlush:
		case <-tick.C:
		}
		if s.flushSoon.Swap(false) {
			s.flushAll(ctx)
			s.slabs.Trim(true)
		}
		s.slabs.Trim(false)
		for ctx.Err() == nil {
			if db := s.nextSync(); db != nil {
				s.syncSeries(db)
				continue
			}
			e := s.nextFlush()
			if e == nil {
				break
			}
			s.flush(ctx, e)
		}
		if s.catalog.Due() {
			s.saveCatalog()
		}
		s.shrinkLog()
	}
}

// FlushSoon asks for the caches of all shards to be flushed, because their
// memory is needed. It does not wait.
func (s *Store) FlushSoon() {
	s.flushSoon.Store(true)
	wake(s.wakeFlush)
}

// shrinkAfter is how long the log must have had no entry before its disk space
// is given back.
const shrinkAfter = 5 * time.Second

// shrinkLog makes the log small once everything in it is in files and nothing
// more comes. A log that is too large it trims before that: where only the catalog
// changes there is no flush to do it.
func (s *Store) shrinkLog() {
	if s.log.Stats().DiskBytes > s.opt.LogBytes {
		s.trim()
	}
	s.applying.Lock()
	applied, last := s.applying.sequence, s.applying.at
	s.applying.Unlock()
	if last.IsZero() || time.Since(last) < shrinkAfter || s.flushedUpTo(applied) < applied {
		return
	}
	if err := s.log.Shrink(applied); err != nil {
		s.logger.Warn("log not shrunk", "err", err)
	}
	s.applying.Lock()
	if s.applying.sequence == applied {
		s.applying.at = time.Time{} // done until the next entry
	}
	s.applying.Unlock()
}

// nextFlush chooses the shard to flush next, or nil. The first of these counts, and among
// equals the shard with the oldest entry that only the log keeps safe: its last flush failed
// and its time has come; very many moves wait for its flush; it is the largest of those that
// are large; it is the largest, and all together are large; it pins the oldest segment, and
// the log is large; it has had no write for a while.
func (s *Store) nextFlush() *shardEntry {
	var failed, moved, large, largest, oldest, idle *shardEntry
	bytes, now := int64(0), time.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for e, since := range s.mu.unflushed {
		if now.Before(e.tries.retryAt) {
			continue
		}
		older := func(than *shardEntry) bool { return than == nil || since < s.mu.unflushed[than] }
		if e.tries.pending != nil && older(failed) {
			failed = e
		}
		if e.ManyMoves() && older(moved) {
			moved = e
		}
		n := e.ActiveBytes()
		if largest == nil || n > bytes || n == bytes && older(largest) {
			largest, bytes = e, n
		}
		if s.large(e, n) && (large == nil || n > large.ActiveBytes()) {
			large = e
		}
		if older(oldest) {
			oldest = e
		}
		if now.Sub(e.LastWrite()) > s.opt.FlushIdle && older(idle) {
			idle = e
		}
	}
	switch {
	case failed != nil:
		return failed
	case moved != nil:
		return moved
	case large != nil:
		return large
	case largest == nil:
		return nil
	case s.held() > s.opt.CacheBytes/2:
		return largest
	case s.log.Stats().DiskBytes > s.opt.LogBytes:
		if first := s.mu.refused.First(); first == 0 || s.mu.unflushed[oldest] < first { // else a flush makes no room
			return oldest
		}
	}
	return idle
}

// large reports whether a shard that would flush so many bytes is to be flushed now.
func (s *Store) large(e *shardEntry, bytes int64) bool {
	return bytes > s.opt.FlushBytes || bytes > s.opt.FullBytes() && e.FillsChunks()
}

// ManyMoves reports whether so many moves wait for a flush that it is due.
func (e *shardEntry) ManyMoves() bool {
	_, waiting := e.Moves()
	return waiting >= move.FlushAt
}

// nextSync chooses the database whose series file is to write the keys that it
// holds in memory, or nil. A flush writes them too; this is for keys that no
// flush is due for, as of many small shards or of writes that failed.
func (s *Store) nextSync() (most *database) {
	mark, pending := s.opt.FlushBytes, s.memory.pending.Load()
	if s.held() > s.opt.CacheBytes/2 && pending > s.memory.cached.Load() {
		mark = 0
	}
	if pending <= mark {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := time.Now()
	for _, db := range s.mu.databases {
		if n := db.series.PendingBytes(); n > mark && !now.Before(db.syncAt) {
			most, mark = db, n
		}
	}
	if most != nil && !most.acquire() {
		return nil
	}
	return most
}

// syncSeries makes a database's series file write the keys that it holds in
// memory, and gives back the reference to it. A failure is logged and tried again
// later.
func (s *Store) syncSeries(db *database) {
	s.flushing.Lock()
	err := db.series.Sync()
	s.flushing.Unlock()
	if err != nil && !db.dropped.Load() {
		s.space.Note(err)
		db.syncAt = time.Now().Add(2 * time.Second)
		s.logger.Error("series not written, will be tried again", "db", db.name, "err", err)
	}
	_ = db.release()
	wake(s.roomMade)
}

// flush freezes a shard between two entries, writes its files and trims the
// log. A failure is logged and tried again later; nothing is lost by it.
func (s *Store) flush(ctx context.Context, e *shardEntry) {
	s.flushing.Lock()
	s.flushLocked(ctx, e)
	collect := s.flushing.bytes >= collectBytes
	if collect {
		s.flushing.bytes = 0
	}
	s.flushing.Unlock()
	if collect {
		runtime.GC()
	}
}

// collectBytes is how much memory of caches is flushed before garbage is collected. Part of
// it is kept for other caches. The rest is most of what a busy store leaves: left to itself the
// collector waits until there is as much garbage as data. A collection is cheap here, for what
// caches hold has no pointers.
const collectBytes = 32 << 20

func (s *Store) flushLocked(ctx context.Context, e *shardEntry) {
	defer s.pacer.Flush()()
	start := time.Now()
	snap := e.tries.pending
	if snap == nil {
		s.applying.Lock()
		snap = e.Freeze(s.applying.sequence)
		s.applying.Unlock()
	}
	if snap == nil {
		return
	}
	s.counters.Flushes.Add(1)
	frozen := e.Bytes() - e.ActiveBytes()
	if err := s.writeFiles(ctx, e.Shard, snap); err != nil {
		_ = e.db.seriesError(err)
		s.mu.Lock()
		e.tries.pending = snap
		e.tries.failures++
		e.tries.failed = err
		wait := min(time.Second<<min(e.tries.failures, 6), time.Minute)
		if vfs.IsFull(err) {
			s.space.Note(err)
			wait = 2 * time.Second // space comes back at once, and writers wait for it
		}
		e.tries.retryAt = time.Now().Add(wait)
		s.mu.Unlock()
		if !errors.Is(err, context.Canceled) {
			s.counters.FlushFailures.Add(1)
			s.logger.Error("flush failed, will be tried again", "shard", e.ID(), "err", err)
		}
		return
	}
	s.mu.Lock()
	e.tries.pending, e.tries.failures, e.tries.failed, e.tries.retryAt = nil, 0, nil, time.Time{}
	s.mu.Unlock()
	took := time.Since(start)
	s.counters.FlushNanos.Add(int64(took))
	s.logger.Debug("flushed", "shard", e.ID(), "took", took)
	s.updateUnflushed(e)
	e.merges.Changed()
	wake(s.roomMade)
	wake(s.wakeCompact)
	s.trim()
	s.flushing.bytes += frozen
}

// writeFiles writes a snapshot's files. The catalog has the shard first: files
// that no catalog names would be nobody's.
func (s *Store) writeFiles(ctx context.Context, sh *shard.Shard, snap *shard.Snapshot) error {
	if err := s.catalog.Save(); err != nil {
		return err
	}
	return sh.Flush(ctx, snap)
}

// saveCatalog writes changes that only the log has, so that a start need not make
// them again. Health reports a failure, and the next round tries again.
func (s *Store) saveCatalog() {
	before := s.catalog.Err()
	if err := s.catalog.Save(); err != nil {
		s.space.Note(err)
		if before == nil {
			s.logger.Error("catalog not saved, will be tried again; the log has the changes", "err", err)
		}
	}
}

// trim gives the log what every shard has in its files (W3).
func (s *Store) trim() {
	s.applying.Lock()
	limit := s.applying.sequence
	s.applying.Unlock()
	limit = s.flushedUpTo(limit)
	if err := s.log.Trim(limit); err != nil {
		s.logger.Warn("log not trimmed", "err", err)
	}
}

// flushAll flushes every shard that has anything unflushed. Failures are logged and
// tried again.
func (s *Store) flushAll(ctx context.Context) {
	for _, e := range s.dirtyShards() {
		s.flushTwice(ctx, e)
	}
}

// flushTwice flushes a snapshot that failed, and then what came after it.
func (s *Store) flushTwice(ctx context.Context, e *shardEntry) {
	s.flush(ctx, e)
	s.flush(ctx, e)
}

// flushFor flushes shards, those with most to read back first, until the time
// is up, and returns how many are left.
func (s *Store) flushFor(d time.Duration) (left int) {
	dirty := s.dirtyShards()
	sizes := make(map[*shardEntry]int64, len(dirty))
	for _, e := range dirty {
		sizes[e] = e.Bytes()
	}
	slices.SortFunc(dirty, func(a, b *shardEntry) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a.ID(), b.ID()))
	})
	start := time.Now()
	for i, e := range dirty {
		if time.Since(start) >= d {
			return len(dirty) - i
		}
		s.flushTwice(context.Background(), e)
	}
	return 0
}

// compactLoop runs the merges of a slot, a shard at a time, as long as there is work. The
// one of small merges repairs as well, which must not wait for a large one either.
func (s *Store) compactLoop(ctx context.Context, large bool) {
	checked := time.Now()
	tick := pulse.NewTicker(time.Second) // the other loop may be busy for hours
	defer tick.Stop()
	woken := s.wakeCompact
	if large {
		woken = s.wakeLarge
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-tick.C:
		}
		if !large {
			wake(s.wakeLarge)
			s.repairDamaged()
			if time.Since(checked) > quarantineCheck {
				s.checkQuarantine()
				checked = time.Now()
			}
		}
		for ctx.Err() == nil && s.compactOnce(ctx, large) {
		}
	}
}

// cold reports whether a shard has had no write for so long that it is merged
// fully.
func (s *Store) cold(e *shardEntry) bool {
	_, dirty := e.FirstUnflushed()
	return !dirty && time.Since(e.LastWrite()) > s.opt.CompactAfter
}

// compactOnce runs one merge of a slot in every shard that calls for one and reports
// whether there was any.
func (s *Store) compactOnce(ctx context.Context, large bool) bool {
	s.mu.RLock()
	entries := slices.Collect(maps.Values(s.mu.shards))
	s.mu.RUnlock()
	any := false
	for _, e := range entries {
		if ctx.Err() == nil {
			any = s.slots.Run(ctx, e, &e.merges, s.cold(e), large) || any
		}
	}
	return any
}
