package store

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tsdbd/cache"
	"tsdbd/internal/ordered"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/retention"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/shard/repair"
	"tsdbd/store/cardinality"
	"tsdbd/store/exemplars"
	"tsdbd/store/figures"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
	"tsdbd/store/merges"
	"tsdbd/store/settings"
	"tsdbd/store/space"
	"tsdbd/store/touched"
)

// The types of store/settings, by which the store is opened.
type (
	Options    = settings.Options
	Limits     = settings.Limits
	Log        = settings.Log
	LogOptions = settings.LogOptions
)

// Store is the engine. See the package comment.
type Store struct {
	// What Open sets.
	opt        Options
	dir        string
	fs         vfs.FS
	logger     *slog.Logger
	lock       vfs.Lock
	catalog    *meta.Catalog
	log        Log
	ledger     *ledger.File
	touched    *touched.Marks
	logAfter   uint64 // entries with a higher sequence were in the log at the start
	retention  *retention.Service
	space      *space.Space
	exemplars  *exemplars.Ring
	quarantine *repair.Quarantine // directories that are not used

	// gate is held shared by a write from its checks until it is applied, and
	// exclusively by deletes and changes of the catalog other than shard groups that
	// a write needs.
	gate         ordered.RWMutex
	bounds       cardinality.Bounds // of all databases; guarded by gate
	validateKeys bool               // guarded by gate

	// changing is held while a change of the catalog is decided, logged and
	// applied, so that it is applied to the catalog that it was decided with.
	changing ordered.Mutex

	// deleting is held shared by deletes, before gate, and exclusively by a
	// backup that they would not let come to an end.
	deleting ordered.RWMutex

	opening      ordered.Mutex  // held while a database or shard is opened
	removing     ordered.Mutex  // held while what was dropped is removed
	removals     sync.WaitGroup // see removeLater
	removalWaits atomic.Bool

	mu struct {
		ordered.RWMutex
		databases map[uint32]*database
		shards    map[uint64]*shardEntry
		dropped   leftovers // out of the catalog, files not yet removed
		refused   layout.Refused
		// unflushed has the shards with entries that only the log keeps safe, and the
		// sequence of the first of these. It changes with applying held.
		unflushed map[*shardEntry]uint64
		closed    bool
	}

	// folding has an element while a move folds rows, or what moves have staged is removed.
	folding chan struct{}

	// applying is held while an entry is applied: between entries the caches
	// stand exactly at sequence.
	applying struct {
		ordered.Mutex
		sequence uint64
		at       time.Time        // of the latest entry; zero when the log has been shrunk since
		ids      []model.SeriesID // confirm's
	}

	// viewing is held shared while the shards of a View are taken, and exclusively while
	// a move is applied to several.
	viewing ordered.RWMutex

	// flushing is held by whoever flushes shards, so that a backup can cut
	// several at one sequence.
	flushing struct {
		ordered.Mutex
		bytes int64 // of caches that were flushed since the last collection
	}

	// memory counts bytes.
	memory struct {
		reserved atomic.Int64 // of writes admitted and not yet in a cache
		cached   atomic.Int64 // of all caches
		pending  atomic.Int64 // of series keys that only the log and the series files' memory have
		tables   atomic.Int64 // of all series tables, as of the latest writes
	}

	following atomic.Bool                 // see Lead
	closing   chan struct{}               // closed by Close
	lost      atomic.Bool                 // the lock; see checkLock
	failure   atomic.Pointer[error]       // why no write is accepted until restart
	logLost   atomic.Pointer[[]scan.Loss] // see logLosses

	flushSoon   atomic.Bool // all dirty shards are to be flushed; see FlushSoon
	wakeFlush   chan struct{}
	wakeCompact chan struct{}
	wakeLarge   chan struct{} // by the slot of small merges
	roomMade    chan struct{} // by a flush
	cancel      context.CancelFunc
	loops       sync.WaitGroup

	slabs    *cache.Slabs
	keys     *series.Cache // that were read from files of series, of all databases
	rows     point.RowPool
	counters figures.Counters
	pacer    merges.Pacer
	slots    merges.Slots
}

// shardEntry is an open shard and whose it is.
type shardEntry struct {
	*shard.Shard
	db           *database
	countedBytes int64 // bytes in Store.cached

	// tries is about flushes that failed. It changes with Store.flushing and Store.mu
	// held.
	tries struct {
		failures int   // in a row
		failed   error // why the last of them did
		retryAt  time.Time
		pending  *shard.Snapshot // must be tried again
	}

	merges  merges.State
	deletes notedDeletes
}

// newStore returns a store that has opened nothing yet.
func newStore(dir string, opt Options) *Store {
	opt.SetDefaults()
	s := &Store{
		opt: opt, dir: dir, fs: opt.FS, logger: opt.Logger, bounds: boundsOf(opt.Limits), validateKeys: opt.ValidateKeys,
	}
	s.flushing.SetRank(ordered.StoreFlushing)
	s.deleting.SetRank(ordered.StoreDeleting)
	s.gate.SetRank(ordered.StoreGate)
	s.changing.SetRank(ordered.StoreChanging)
	s.removing.SetRank(ordered.StoreRemoving)
	s.opening.SetRank(ordered.StoreOpening)
	s.applying.SetRank(ordered.StoreApplying)
	s.viewing.SetRank(ordered.StoreViewing)
	s.mu.SetRank(ordered.StoreMaps)
	s.pacer.Rate.Store(opt.CompactBytesPerSecond)
	s.slabs = cache.NewSlabs(opt.FullBytes())
	s.keys = series.NewCache(int(min(opt.SeriesTableBytes/4, 32<<20)))
	s.slots.Counters, s.slots.Logger = &s.counters, s.logger
	s.mu.databases = make(map[uint32]*database)
	s.mu.shards = make(map[uint64]*shardEntry)
	s.mu.refused, s.mu.unflushed = make(layout.Refused), make(map[*shardEntry]uint64)
	s.mu.dropped.shards, s.mu.dropped.databases = make(map[uint64]droppedShard), make(map[uint32]*database)
	s.space = space.New(s.fs, dir, time.Now)
	s.exemplars = exemplars.New(opt.Exemplars, opt.CacheBytes/8)
	s.quarantine = repair.NewQuarantine(s.fs, dir, s.logger)
	s.wakeFlush, s.roomMade = make(chan struct{}, 1), make(chan struct{}, 1)
	s.wakeCompact, s.wakeLarge = make(chan struct{}, 1), make(chan struct{}, 1)
	s.folding = make(chan struct{}, 1)
	s.closing = make(chan struct{})
	s.following.Store(opt.Follower)
	return s
}

func (s *Store) shard(id uint64) *shardEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.shards[id]
}

// lookUp returns a database if it is open, and why it does not open. Both are nil if it was
// not opened yet, or was dropped.
func (s *Store) lookUp(id uint32) (*database, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.databases[id], s.mu.refused.Error(id)
}

// allDatabases returns the databases that are open.
func (s *Store) allDatabases() []*database {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.mu.databases))
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail ends all writes at the log's first sticky failure (W7).
func (s *Store) fail(err error) {
	wrapped := fmt.Errorf("%w: %w", ErrReadOnly, err)
	if s.failure.CompareAndSwap(nil, &wrapped) {
		s.logger.Error("no write is accepted until restart", "err", err)
	}
}

// leftovers are what was dropped and may have files.
type leftovers struct {
	shards    map[uint64]droppedShard
	databases map[uint32]*database
	refused   []uint32 // databases that did not open
}

type droppedShard struct {
	*shardEntry        // nil: it was not open, for no point was ever written to it
	database    uint32 // whose it was
}

func (s *Store) writable() error {
	s.mu.RLock()
	closed := s.mu.closed
	s.mu.RUnlock()
	if closed {
		return ErrClosed
	}
	if p := s.failure.Load(); p != nil {
		return *p
	}
	if s.following.Load() {
		return ErrNotLeader
	}
	return nil
}

// held returns the memory that flushes and syncs of series files give back.
func (s *Store) held() int64 { return s.memory.cached.Load() + s.memory.pending.Load() }

// refusal classifies what kept a write or delete from being logged: a full
// disk passes by itself; a log that has failed needs a restart.
func (s *Store) refusal(err error) error {
	if s.log.Err() != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return s.space.Refusal(err)
}

// overloaded returns why there is no memory for a write.
func (s *Store) overloaded() error {
	if s.space.Full() {
		return space.FullError{Err: fmt.Errorf("the cache is full and cannot be flushed: %w", syscall.ENOSPC)}
	}
	return ErrOverloaded
}
