package point

import (
	"errors"
	"fmt"
	"time"
)

// OverdueError is the error of a write that has not ended in time. The writer uses the batch,
// and what the batch refers to, until Ended is closed.
type OverdueError struct {
	After time.Duration
	Ended <-chan struct{}
}

// Error says that nobody knows what becomes of the write.
func (e *OverdueError) Error() string {
	return fmt.Sprintf("the write has not ended within %s: the disk hangs, or the server is overloaded; whether it takes effect is unknown, it may be repeated", e.After)
}

// Temporary reports that to try again may help.
func (*OverdueError) Temporary() bool { return true }

// WhenEnded calls f when the writer that has returned err no longer uses the batch: now,
// or in another goroutine.
func WhenEnded(err error, f func()) {
	var overdue *OverdueError
	if !errors.As(err, &overdue) {
		f()
		return
	}
	go func() {
		<-overdue.Ended
		f()
	}()
}
