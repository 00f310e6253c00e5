package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"tsdbd/meta"
	"tsdbd/retention"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
	"tsdbd/store/touched"
	"tsdbd/wal"
)

// openFiles opens the catalog, what it names, and the log.
func (s *Store) openFiles() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	hasData := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, layout.DatabasePrefix) })
	if s.catalog, err = meta.Open(s.fs, path.Join(s.dir, "meta"), meta.Options{
		Logger: s.logger, MustExist: hasData, BeforeSave: s.saveTouched,
		SetAside: s.metaAside("The other copy of the catalog was used: nothing is lost."),
	}); err != nil {
		return err
	}
	head, err := wal.ReadHead(s.fs, path.Join(s.dir, "wal"))
	if err != nil {
		return err
	}
	if err := layout.CheckCatalog(s.fs, s.dir, names, s.catalog.Data().Lineage, head.Lineages); err != nil {
		return err
	}
	if s.ledger, err = ledger.Open(s.fs, s.dir, s.catalog.Data().Lineage, s.logger); err != nil {
		return err
	}
	s.logAfter = head.After
	if s.opt.OpenLog != nil {
		s.logAfter = s.opt.LogAfter
	}
	missed := s.logAfter
	if missed == math.MaxUint64 { // the log says nothing
		missed = s.catalog.Data().Applied
	}
	s.touched = touched.Open(s.fs, path.Join(s.dir, "meta"), s.catalog.Data(), missed, s.logger, s.metaAside("The server compares all windows of downsamples with their sources."))
	if err := s.openDatabases(); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	s.ledger.Complete(func() error { return s.beforeTrim(0) })
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
	s.loops.Go(func() { s.compactLoop(ctx, false) })
	s.loops.Go(func() { s.compactLoop(ctx, true) })
	s.loops.Go(func() { s.lockLoop(ctx) })
	if opt.RetentionInterval >= 0 {
		s.retention = retention.Start(retention.Options{
			Store: s, CheckInterval: opt.RetentionInterval, Wait: opt.RetentionWait, Logger: s.logger, Now: s.opt.Now,
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
	f := newFollower(s)
	if s.log, err = open(LogOptions{Apply: s.apply, Follow: f.follow, Resolve: s.resolve, OnFailure: s.fail, BeforeTrim: s.beforeTrim}); err != nil {
		return err
	}
	start := time.Now()
	known, _ := s.ledger.Log()
	if err := s.log.Replay(f.replay); err != nil {
		return fmt.Errorf("replay log: %w", err)
	}
	// What files, tombstones or the ledger know of is never given out again,
	// whatever became of the log.
	if err := s.log.Advance(max(s.applying.sequence, known.Sequence)); err != nil {
		return fmt.Errorf("replay log: %w", err)
	}
	if s.opt.Follower {
		// The log comes again from here. A flush before it has come must not say that
		// its files have more.
		s.applying.sequence = s.opt.LogAfter
	}
	s.readLogLosses()
	s.logger.Info("log replayed", "entries", f.entries, "rows", f.rows, "took", time.Since(start))
	return nil
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
	close(s.closing)
	s.gate.Lock()
	//lint:ignore SA2001 writes under way are applied now, which is what is waited for
	s.gate.Unlock()
	s.removals.Wait()
	s.cancel()
	s.loops.Wait()
	if s.failure.Load() == nil {
		if left := s.flushFor(s.opt.CloseFlush); left > 0 {
			s.logger.Info("the log keeps what is not flushed, the next start reads it back", "shards", left)
		}
		s.saveCatalog()
	}
	return s.closeFiles()
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

// OpenForReading opens the store in dir for views alone. It replays the log, but
// flushes, merges, and expires nothing, and refuses every write. Opening still
// repairs what Open repairs (the catalog's second copy, the end of the log, files
// that a crash left). An owner who wants the directory unchanged passes an FS that
// keeps changes to itself, such as an overlay.FS.
func OpenForReading(dir string, opt Options) (*Store, error) {
	opt.CacheBytes, opt.FlushBytes = math.MaxInt64, math.MaxInt64
	s := newStore(dir, opt)
	_, s.cancel = context.WithCancel(context.Background())
	refusal := fmt.Errorf("%w: opened for reading", ErrReadOnly)
	s.failure.Store(&refusal) // Close does not flush either
	var err error
	if s.lock, err = s.fs.Lock(path.Join(dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.openFiles(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}
