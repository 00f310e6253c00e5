package store

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"tsdbd/internal/vfs"
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
// disk passes by itself; a log that has failed needs a restart.
func (s *Store) refusal(err error) error {
	switch {
	case s.log.Err() != nil:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case vfs.IsFull(err):
		s.diskRefused(err)
		return diskFull{err}
	}
	var system syscall.Errno
	if errors.As(err, &system) {
		s.trouble.Store(&trouble{err, time.Now()})
	}
	return err
}

// trouble is an error of the operating system that kept the latest write or
// change out, as that a directory is not writable.
type trouble struct {
	err error
	at  time.Time
}

// troubleTells is how long a trouble counts if no write comes that shows whether
// it has passed.
const troubleTells = time.Minute

// troubled returns why the latest write or change was refused, or nil.
func (s *Store) troubled() error {
	if t := s.trouble.Load(); t != nil && time.Since(t.at) < troubleTells {
		return t.err
	}
	return nil
}

// untroubled notes that a write was stored.
func (s *Store) untroubled() {
	if s.trouble.Load() != nil {
		s.trouble.Store(nil)
	}
}

// overloaded returns why there is no memory for a write.
func (s *Store) overloaded() error {
	if s.diskIsFull() {
		return diskFull{fmt.Errorf("the cache is full and cannot be flushed: %w", syscall.ENOSPC)}
	}
	return ErrOverloaded
}

// quotaTells is how long a used up quota counts as a full disk: the free space
// of the file system does not tell when it ends.
const quotaTells = 10 * time.Second

// diskRefused remembers an error of a full disk.
func (s *Store) diskRefused(err error) {
	s.full.Store(true)
	if vfs.IsQuota(err) {
		s.quotaAt.Store(time.Now().UnixNano())
	}
}

// diskIsFull reports whether something was refused for want of space and there
// is still none.
func (s *Store) diskIsFull() bool {
	if !s.full.Load() {
		return false
	}
	if time.Since(time.Unix(0, s.quotaAt.Load())) < quotaTells {
		return true
	}
	if free, err := s.fs.Free(s.dir); err == nil && free >= diskResumeBytes {
		s.full.Store(false)
		return false
	}
	return true
}
