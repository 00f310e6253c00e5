package store

import "errors"

// temporary is a refusal: the same request may succeed later.
type temporary string

func (t temporary) Error() string { return string(t) }
func (temporary) Temporary() bool { return true }

// The refusals of a whole request. Clients keep their data and try again.
const (
	// ErrOverloaded refuses a write for lack of memory.
	ErrOverloaded = temporary("cache-max-memory-size exceeded: writes are faster than flushes, try again")
	// ErrTooManyMeasurements refuses a write that has no room in the memory of all
	// writes, because each of its measurements needs some.
	ErrTooManyMeasurements = temporary("memory limit reached: too many measurements in one write for data.cache-max-memory, send fewer at a time")
	// ErrReadOnly is the class of refusals after a failed write or sync of the log
	// or the catalog. A restart may heal it.
	ErrReadOnly = temporary("store is read-only")
	// ErrClosed is returned by a store that is closing.
	ErrClosed = temporary("server is shutting down")
	// ErrNotLeader refuses a change at a node that follows another one. From a log it
	// says that the node no longer leads, and that nobody knows what becomes of the
	// entry.
	ErrNotLeader = temporary("this node does not lead the cluster, try again")
)

// ErrDiverged is in the error of Follow if the entry contradicts what this node has.
// Nodes that can apply the entry have another state.
var ErrDiverged = errors.New("this node has another state than the others")

// errLeads refuses an entry of another node to one that has not retired.
var errLeads = errors.New("the log has an entry of another node, but this one leads")
