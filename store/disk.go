package store

import (
	"errors"
	"fmt"
	"time"

	"tsdbd/internal/vfs"
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
	case vfs.IsFull(err):
		s.diskRefused(err)
		return diskFull{err}
	}
	return err
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
