// Package merges runs the merges of shards, in two slots, knows when a merge that failed
// is tried again, and keeps merges from taking the disk.
//
// A large merge, as of a cold shard, takes hours and must not keep the small ones of shards
// that are written to waiting, whose files would pile up. The store has a goroutine for each
// slot, which calls Run with every shard. A shard has one merge at a time.
package merges

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/store/figures"
)

// smallBytes is how much a merge of the slot for small ones reads at most: what files of
// levels 0 and 1 have.
const smallBytes = 512 << 20

// Shard is what the slots use of a shard.
type Shard interface {
	ID() uint64
	IndexDamage() *binio.CorruptError
	// NextMerge returns how many bytes the next merge reads, and whether it makes moves.
	NextMerge(cold bool) (bytes int64, moves bool)
	Compact(ctx context.Context, cold bool) (did bool, err error)
}

// State is what is known of the merges of a shard.
type State struct {
	merging  sync.Mutex // held by the goroutine that merges the shard
	failures int        // in a row
	at       time.Time  // when the next may be
	cold     bool       // as idle says
	idle     atomic.Bool
}

// Changed tells that the files of the shard, or what waits for them, have changed.
func (st *State) Changed() { st.idle.Store(false) }

// Hold waits for the end of a merge that runs, and keeps others from beginning until release.
func (st *State) Hold() (release func()) {
	st.merging.Lock()
	return st.merging.Unlock
}

// Slots are the two slots of a store.
type Slots struct {
	Counters *figures.Counters
	Logger   *slog.Logger
	running  atomic.Int64
}

// Running reports whether a shard is merged now.
func (s *Slots) Running() bool { return s.running.Load() > 0 }

// Run runs the next merge of a shard if there is one and it is of the slot: the one for what
// is cold, makes moves or reads much, or the one for all else. It reports whether it did.
func (s *Slots) Run(ctx context.Context, sh Shard, st *State, cold, large bool) bool {
	if !st.merging.TryLock() {
		return false
	}
	defer st.merging.Unlock()
	if time.Now().Before(st.at) || st.idle.Load() && cold == st.cold && sh.IndexDamage() == nil {
		return false
	}
	if bytes, moves := sh.NextMerge(cold); large != (cold || moves || bytes > smallBytes) {
		return false
	}
	st.idle.Store(true) // until a change of files ends it
	st.cold = cold
	s.running.Add(1)
	start := time.Now()
	did, err := sh.Compact(ctx, cold)
	s.running.Add(-1)
	if did || err != nil {
		st.Changed()
	}
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		st.failures++
		st.at = time.Now().Add(min(time.Second<<min(st.failures, 12), time.Hour))
		s.Counters.CompactionFailures.Add(1)
		s.Logger.Error("compaction failed, will be tried again later", "shard", sh.ID(), "err", err)
	case did:
		st.failures = 0
		s.Counters.Compactions.Add(1)
		s.Counters.CompactionNanos.Add(int64(time.Since(start)))
		s.Logger.Debug("compacted", "shard", sh.ID(), "full", cold, "took", time.Since(start))
		return true
	}
	return false
}
