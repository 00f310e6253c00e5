package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tsdbd/internal/vfs"
)

// lockEvery is the time between two looks at the lock.
const lockEvery = time.Minute

// lockLoop looks whether the directory is still this store's, and tries again to
// remove what could not be removed.
func (s *Store) lockLoop(ctx context.Context) {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.checkLock()
			s.tryRemove()
		}
	}
}

// checkLock ends everything that writes if the lock no longer keeps other
// servers out: the directory was moved away, or LOCK was removed where only the
// file is locked. To lock again would not help, for another server may be at
// work already. Reads go on. An error of the look itself, as of a disk that does
// not answer, changes nothing: the next look tells.
func (s *Store) checkLock() {
	err := s.lock.Held()
	if err != nil && !errors.Is(err, vfs.ErrLockLost) {
		s.logger.Warn("lock of the data directory not checked", "err", err)
		return
	}
	if err == nil || s.lost.Swap(true) {
		return
	}
	s.fail(fmt.Errorf("the lock of the data directory %s is lost, another server may use it: %w", s.dir, err))
	s.cancel() // no flush, no merge
	if err := s.catalog.Close(); err != nil {
		s.logger.Warn("catalog not closed", "err", err)
	}
}
