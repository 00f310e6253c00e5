package point

import (
	"errors"
	"fmt"
)

// PartialWrite is the error of a write that refused some of its points. All others
// are durable.
type PartialWrite interface {
	error
	PartialWrite() (reason string, dropped int)
}

// Partial returns what an error says of a write that refused some of its points,
// and whether it is such an error.
func Partial(err error) (reason string, dropped int, ok bool) {
	if err == nil {
		return "", 0, false
	}
	var partial PartialWrite
	if !errors.As(err, &partial) {
		return "", 0, false
	}
	reason, dropped = partial.PartialWrite()
	return reason, dropped, true
}

// Temporary reports whether an error goes away by itself: overload, a full cache, a
// store that is opening or closing.
func Temporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}

// PartialWriteError says that some points of a write were dropped for good;
// the others are durable.
type PartialWriteError struct {
	Reason          string
	Dropped         int
	Database        string
	RetentionPolicy string // empty: the text does not name it
}

// Error returns InfluxDB's text.
func (e *PartialWriteError) Error() string {
	text := fmt.Sprintf("partial write: %s dropped=%d for database: %s", e.Reason, e.Dropped, e.Database)
	if e.RetentionPolicy != "" {
		text += " for retention policy: " + e.RetentionPolicy
	}
	return text
}

// PartialWrite returns the first reason and the number of dropped points.
func (e *PartialWriteError) PartialWrite() (reason string, dropped int) { return e.Reason, e.Dropped }
