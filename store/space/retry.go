package space

import (
	"errors"
	"syscall"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

const (
	// The time between two attempts doubles from firstRetry to lastRetry.
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
	// Tries is how often an error of the environment is tried again, except for a full disk:
	// about a minute.
	Tries = 66
)

// Environment reports whether an error is one of the system, and not of what files have.
func Environment(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && !binio.Damaged(err)
}

// Retry calls do until it succeeds: as long as the disk is full, and up to so many times
// more for another error of the environment, as of a read or of too many open files. retried
// gets the first error that is tried again. rest waits between two attempts; its error ends
// Retry.
func (d *Space) Retry(tries int, do func() error, retried func(error), rest func(time.Duration) error) error {
	for try := 0; ; try++ {
		err := do()
		if !vfs.IsFull(err) && (!Environment(err) || try >= tries) {
			return err
		}
		d.Note(err)
		if try == 0 {
			retried(err)
		}
		if err := rest(min(firstRetry<<min(try, 16), lastRetry)); err != nil {
			return err
		}
	}
}
