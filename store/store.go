package store

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/internal/ordered"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/retention"
	"tsdbd/shard"
	"tsdbd/shard/repair"
	"tsdbd/store/cardinality"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
	"tsdbd/store/pace"
	"tsdbd/store/space"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// Options adjust a Store; the zero value works.
type Options struct {
	FS     vfs.FS       // default vfs.OS
	Logger *slog.Logger // nil discards

	// SyncInterval 0 makes every write durable before its answer. Above 0 the
	// log is synced that often and a crash of the machine may lose what was
	// answered since.
	SyncInterval time.Duration
	SegmentBytes int64 // of the log; 0: the log's default
	// OpenLog opens the log; nil: that of a single node, in the data directory.
	OpenLog func(LogOptions) (Log, error)

	FlushBytes       int64         // a shard's cache is flushed above it; default 48 MiB
	CacheBytes       int64         // hard mark of all caches, writes are refused above it; default 512 MiB
	SeriesTableBytes int64         // memory of the series that parsers remember, in all databases; above it the largest table starts afresh; default 256 MiB
	FlushIdle        time.Duration // a cache without writes for so long is flushed; default 10 min
	LogBytes         int64         // above it the shards that pin the oldest segments are flushed; default 512 MiB
	CompactAfter     time.Duration // a shard without writes for so long is compacted fully; default 10 min
	CloseFlush       time.Duration // Close begins no flush after it, the log keeps the rest; default 20 s, < 0: it flushes nothing

	Limits

	Shards            meta.ShardDurations // retention policy duration -> shard group duration
	RetentionInterval time.Duration       // between checks for expired shard groups; 0: the default; < 0: never
	Now               func() time.Time    // wall clock; nil: time.Now
}

// Limits are the options that SetLimits changes while the store is open.
type Limits struct {
	// CompactBytesPerSecond bounds what merges read and write together; 0: no
	// bound. Either way they make way for flushes.
	CompactBytesPerSecond int64

	// What a database may hold; 0: no bound. Points of new series beyond it are
	// dropped, and the writer is told.
	MaxSeriesPerDatabase int
	MaxValuesPerTag      int // of each tag key of each measurement
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	positive(&o.FlushBytes, 48<<20)
	positive(&o.CacheBytes, 512<<20)
	positive(&o.SeriesTableBytes, 256<<20)
	positive(&o.FlushIdle, 10*time.Minute)
	positive(&o.LogBytes, 512<<20)
	positive(&o.CompactAfter, 10*time.Minute)
	if o.CloseFlush == 0 {
		o.CloseFlush = 20 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// positive gives an option its default.
func positive[T int64 | time.Duration](option *T, otherwise T) {
	if *option <= 0 {
		*option = otherwise
	}
}

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
	logAfter   uint64 // entries with a higher sequence were in the log at the start
	retention  *retention.Service
	space      *space.Space
	quarantine *repair.Quarantine // directories that are not used

	// gate is held shared by a write from its checks until it is applied, and
	// exclusively by deletes and changes of the catalog other than shard groups that
	// a write needs.
	gate   ordered.RWMutex
	bounds cardinality.Bounds // of all databases; guarded by gate

	// changing is held while a change of the catalog is decided, logged and
	// applied, so that it is applied to the catalog that it was decided with.
	changing ordered.Mutex

	// deleting is held shared by deletes, before gate, and exclusively by a
	// backup that they would not let come to an end.
	deleting ordered.RWMutex

	opening  ordered.Mutex  // held while a database or shard is opened
	removing ordered.Mutex  // held while what was dropped is removed
	removals sync.WaitGroup // changes of the catalog that may have files to remove; begun with the gate held

	mu struct {
		ordered.RWMutex
		databases map[uint32]*database
		shards    map[uint64]*shardEntry
		dropped   leftovers           // out of the catalog, files not yet removed
		refused   map[uint32]*refused // databases that do not open
		unflushed *list.List          // of the *shardEntry in shards that have anything unflushed; see unflushed
		closed    bool
	}

	// applying is held while an entry is applied: between entries the caches
	// stand exactly at sequence.
	applying struct {
		ordered.Mutex
		sequence uint64
		at       time.Time        // of the latest entry; zero when the log has been shrunk since
		ids      []model.SeriesID // confirm's
	}

	// flushing is held by whoever flushes shards, so that a backup can cut
	// several at one sequence.
	flushing struct {
		ordered.Mutex
		garbage int64 // bytes of flushed caches since the last collection
	}

	// unsure has the directories of shards whose manifests may not be durable,
	// because a killed server renamed them; see sureOfNames.
	unsure struct {
		sync.Mutex
		dirs []string
	}

	// memory counts bytes.
	memory struct {
		reserved atomic.Int64 // of writes admitted and not yet in a cache
		cached   atomic.Int64 // of all caches
		pending  atomic.Int64 // of series keys that only the log and the series files' memory have
		tables   atomic.Int64 // of all series tables, as of the latest writes
	}

	lost      atomic.Bool                 // the lock; see checkLock
	failure   atomic.Pointer[error]       // why no write is accepted until restart
	logLosses atomic.Pointer[[]scan.Loss] // damaged spans of the log; never nil once open

	flushSoon   atomic.Bool // all dirty shards are to be flushed; see FlushSoon
	compacting  atomic.Bool // while a shard is compacted
	wakeFlush   chan struct{}
	wakeCompact chan struct{}
	cancel      context.CancelFunc
	loops       sync.WaitGroup

	rows     rowPool
	counters counters
	pacer    pace.Pacer
}

// shardEntry is an open shard and whose it is.
type shardEntry struct {
	*shard.Shard
	db *database
	unflushed

	// tries is about flushes that failed. It changes with Store.flushing and Store.mu
	// held.
	tries struct {
		failures int   // in a row
		failed   error // why the last of them did
		retryAt  time.Time
		pending  *shard.Snapshot // must be tried again
	}

	// merges is the compaction loop's.
	merges struct {
		failures int // in a row
		at       time.Time
		cold     bool // as idle says
	}
	idle atomic.Bool // nothing to merge when last looked at, as cold as merges.cold says; any change of files ends it
}

// newStore returns a store that has opened nothing yet.
func newStore(dir string, opt Options) *Store {
	opt.setDefaults()
	s := &Store{opt: opt, dir: dir, fs: opt.FS, logger: opt.Logger, bounds: cardinality.Bounds{MaxSeries: opt.MaxSeriesPerDatabase, MaxValues: opt.MaxValuesPerTag}}
	s.flushing.SetRank(ordered.StoreFlushing)
	s.deleting.SetRank(ordered.StoreDeleting)
	s.gate.SetRank(ordered.StoreGate)
	s.changing.SetRank(ordered.StoreChanging)
	s.removing.SetRank(ordered.StoreRemoving)
	s.opening.SetRank(ordered.StoreOpening)
	s.applying.SetRank(ordered.StoreApplying)
	s.mu.SetRank(ordered.StoreMaps)
	s.pacer.Rate.Store(opt.CompactBytesPerSecond)
	s.mu.databases = make(map[uint32]*database)
	s.mu.shards = make(map[uint64]*shardEntry)
	s.mu.refused = make(map[uint32]*refused)
	s.mu.unflushed = list.New()
	s.space = space.New(s.fs, dir, time.Now)
	s.quarantine = repair.NewQuarantine(s.fs, dir, s.logger)
	s.wakeFlush, s.wakeCompact = make(chan struct{}, 1), make(chan struct{}, 1)
	return s
}

// openFiles opens the catalog, what it names, and the log.
func (s *Store) openFiles() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	hasData := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, layout.DatabasePrefix) })
	if s.catalog, err = meta.Open(s.fs, path.Join(s.dir, "meta"), meta.Options{Logger: s.logger, MustExist: hasData}); err != nil {
		return err
	}
	head, err := wal.ReadHead(s.fs, path.Join(s.dir, "wal"))
	if err != nil {
		return err
	}
	if err := s.checkCatalog(names, head.Lineages); err != nil {
		return err
	}
	if s.ledger, err = ledger.Open(s.fs, s.dir, s.catalog.Data().Lineage, s.logger); err != nil {
		return err
	}
	s.logAfter = head.After
	if err := s.openDatabases(); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	return s.clearDirectories()
}

// Open opens or makes the store in dir, replays the log and starts the loops.
func Open(dir string, opt Options) (_ *Store, err error) {
	s := newStore(dir, opt)
	if err := s.fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if s.lock, err = s.fs.Lock(path.Join(dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	defer func() {
		if err != nil {
			s.closeFiles()
		}
	}()
	if err := s.openFiles(); err != nil {
		return nil, err
	}
	// The names of the directories made on the way.
	if err := errors.Join(s.fs.SyncDir(dir), s.fs.SyncDir(path.Dir(path.Clean(dir)))); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.loops.Go(func() { s.flushLoop(ctx) })
	s.loops.Go(func() { s.compactLoop(ctx) })
	s.loops.Go(func() { s.lockLoop(ctx) })
	if opt.RetentionInterval >= 0 {
		s.retention = retention.Start(retention.Options{
			Store: s, CheckInterval: opt.RetentionInterval, Logger: s.logger, Now: s.opt.Now,
		})
	}
	return s, nil
}

// openLog opens the log, replays it and makes it ready for writes.
func (s *Store) openLog() error {
	s.applying.sequence = s.catalog.Data().Applied
	for _, e := range s.mu.shards {
		s.applying.sequence = max(s.applying.sequence, e.LastSequence())
	}
	open := s.opt.OpenLog
	if open == nil {
		open = s.openLocalLog
	}
	var err error
	if s.log, err = open(LogOptions{Apply: s.apply, OnFailure: s.fail, BeforeTrim: s.beforeTrim}); err != nil {
		return err
	}
	start := time.Now()
	r := replayer{s: s, databases: make(map[uint32]*replayed), dropped: make(map[uint64]bool)}
	known, _ := s.ledger.Log()
	if err := s.log.Replay(r.entry); err != nil {
		return fmt.Errorf("replay log: %w", err)
	}
	// What files, tombstones or the ledger know of is never given out again,
	// whatever became of the log.
	if err := s.log.Advance(max(s.applying.sequence, known.Sequence)); err != nil {
		return fmt.Errorf("replay log: %w", err)
	}
	s.listLogLosses()
	s.logger.Info("log replayed", "entries", r.entries, "rows", r.rows, "took", time.Since(start))
	return nil
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

func (s *Store) shard(id uint64) *shardEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.shards[id]
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

// Close refuses new writes, waits for those under way, flushes all caches and
// closes everything in reverse order of opening.
func (s *Store) Close() error {
	if s.retention != nil {
		_ = s.retention.Close()
	}
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	s.mu.Unlock()
	s.gate.Lock()
	//lint:ignore SA2001 writes under way are applied now, which is what is waited for
	s.gate.Unlock()
	s.removals.Wait()
	s.cancel()
	s.loops.Wait()
	var errs []error
	if s.failure.Load() == nil {
		if left := s.flushFor(s.opt.CloseFlush); left > 0 {
			s.logger.Info("the log keeps what is not flushed, the next start reads it back", "shards", left)
		}
		s.saveCatalog()
	}
	errs = append(errs, s.closeFiles())
	return errors.Join(errs...)
}

// closeFiles closes everything. The lock goes last, when the last view of a
// database is released: a series file is written when it is closed.
func (s *Store) closeFiles() error {
	if s.lost.Load() {
		return s.lock.Close() // closing the others would write to what may be another server's
	}
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	for _, e := range s.mu.shards {
		errs = append(errs, e.Close())
	}
	for _, db := range s.mu.databases {
		errs = append(errs, db.release())
	}
	for _, db := range s.mu.databases {
		<-db.closed
	}
	if s.catalog != nil {
		errs = append(errs, s.catalog.Close())
	}
	errs = append(errs, s.lock.Close())
	return errors.Join(errs...)
}
