package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"tsdbd/meta"
)

// OpenForReading opens the store in dir for views alone: the log is replayed,
// but nothing is flushed, merged, expired or locked, and every write is
// refused. Opening still puts things right as Open does (the catalog's second
// copy, the end of the log, left-over files), so an owner who wants the
// directory unchanged passes an FS that keeps changes to itself.
func OpenForReading(dir string, opt Options) (_ *Store, err error) {
	opt.setDefaults()
	opt.CacheBytes, opt.FlushBytes = math.MaxInt64, math.MaxInt64
	s := &Store{opt: opt, dir: dir, fs: opt.FS, logger: opt.Logger, lock: noLock{}}
	s.mu.databases = make(map[uint32]*database)
	s.mu.shards, s.mu.dropped = make(map[uint64]*shardEntry), make(map[uint64]*shardEntry)
	s.wakeFlush, s.wakeCompact = make(chan struct{}, 1), make(chan struct{}, 1)
	_, s.cancel = context.WithCancel(context.Background())
	refusal := fmt.Errorf("%w: opened for reading", ErrReadOnly)
	s.failure.Store(&refusal) // Close does not flush either
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeFiles())
		}
	}()
	names, err := s.fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	hasData := false
	for _, name := range names {
		hasData = hasData || strings.HasPrefix(name, databasePrefix)
	}
	if s.catalog, err = meta.Open(s.fs, path.Join(dir, "meta"), meta.Options{Logger: s.logger, MustExist: hasData}); err != nil {
		return nil, err
	}
	if err := s.openDatabases(names); err != nil {
		return nil, err
	}
	return s, s.openLog()
}

type noLock struct{}

func (noLock) Close() error { return nil }
