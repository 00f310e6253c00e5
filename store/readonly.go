package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
)

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
