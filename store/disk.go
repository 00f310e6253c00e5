package store

import (
	"errors"
	"fmt"
	"syscall"

	"tsdbd/meta"
)

// diskResumeBytes is the free space above which a disk that was full no longer
// counts as such: a small segment of the log and a flush fit.
const diskResumeBytes = 4 << 20

// diskFull is a change refused by a full disk; it is accepted when there is
// space again.
type diskFull struct{ err error }

func (e diskFull) Error() string   { return "disk full: " + e.err.Error() }
func (e diskFull) Unwrap() error   { return e.err }
func (e diskFull) Temporary() bool { return true }

// refusal classifies what kept a write or delete from being logged: a full
// disk passes by itself; a log or catalog that has failed needs a restart.
func (s *Store) refusal(err error) error {
	switch {
	case s.log.Err() != nil, errors.Is(err, meta.ErrReadOnly):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, syscall.ENOSPC):
		s.full.Store(true)
		return diskFull{err}
	}
	return err
}

// diskIsFull reports whether something was refused for want of space and there
// is still none.
func (s *Store) diskIsFull() bool {
	if !s.full.Load() {
		return false
	}
	if free, err := s.fs.Free(s.dir); err == nil && free >= diskResumeBytes {
		s.full.Store(false)
		return false
	}
	return true
}
