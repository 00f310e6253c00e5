package store

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// OpenForReading opens the store in dir for views alone: the log is replayed,
// but nothing is flushed, merged, expired or locked, and every write is
// refused. Opening still puts things right as Open does (the catalog's second
// copy, the end of the log, left-over files), so an owner who wants the
// directory unchanged passes an FS that keeps changes to itself.
func OpenForReading(dir string, opt Options) (*Store, error) {
	opt.CacheBytes, opt.FlushBytes = math.MaxInt64, math.MaxInt64
	s := newStore(dir, opt)
	s.lock = noLock{}
	_, s.cancel = context.WithCancel(context.Background())
	refusal := fmt.Errorf("%w: opened for reading", ErrReadOnly)
	s.failure.Store(&refusal) // Close does not flush either
	if err := s.openFiles(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

type noLock struct{}

func (noLock) Close() error { return nil }
func (noLock) Held() error  { return nil }
