package store

import (
	"errors"
	"fmt"
)

// ErrOverloaded refuses a write for want of memory; trying again later helps.
var ErrOverloaded error = overloaded{}

type overloaded struct{}

func (overloaded) Error() string {
	return "cache-max-memory-size exceeded: writes are faster than flushes, try again"
}

// Temporary reports that the same request may succeed later.
func (overloaded) Temporary() bool { return true }

// ErrReadOnly is the class of refusals after a failed write or sync of the log
// or the catalog. It is temporary: a restart may heal it, and until then clients
// are to keep their data.
var ErrReadOnly error = readOnly{}

type readOnly struct{}

func (readOnly) Error() string   { return "store is read-only" }
func (readOnly) Temporary() bool { return true }

// ErrOlderCatalog refuses to open a store with data that came after its catalog.
var ErrOlderCatalog = errors.New("the catalog is older than this directory: put the newer catalog back, or move the directory away to go on without its data")

// ErrForeignCatalog refuses to open a store with the catalog of another data
// directory.
var ErrForeignCatalog = errors.New("the catalog is that of another data directory: put the right one back, or move the directories away to go on without their data")

// ErrClosed is returned by a store that is closing.
var ErrClosed error = closing{}

type closing struct{}

func (closing) Error() string   { return "server is shutting down" }
func (closing) Temporary() bool { return true }

// PartialWriteError says that some points of a write were dropped for good;
// the others are durable.
type PartialWriteError struct {
	Reason          string
	Dropped         int
	Database        string
	RetentionPolicy string
}

// Error returns InfluxDB's text.
func (e *PartialWriteError) Error() string {
	return fmt.Sprintf("partial write: %s dropped=%d for database: %s for retention policy: %s", e.Reason, e.Dropped, e.Database, e.RetentionPolicy)
}

// PartialWrite returns the first reason and the number of dropped points.
func (e *PartialWriteError) PartialWrite() (reason string, dropped int) { return e.Reason, e.Dropped }
