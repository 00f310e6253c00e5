package layout

import (
	"fmt"
	"maps"
	"slices"
)

// RefusedError says that a database does not open, and why. It is temporary: an
// operator can put the right files back, and until then clients are to keep
// their data.
type RefusedError struct {
	Database string
	Err      error
	// First is the sequence of the first entry of the log that names it; 0: none.
	First uint64
}

// Error names the database and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("database %s does not open: %v", e.Database, e.Err)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Temporary reports that the same request may succeed later.
func (e *RefusedError) Temporary() bool { return true }

// Refused are the databases that do not open, by id, because their files contradict the
// catalog or the log. Their directories stay as they are, and so does what the log has
// of them.
type Refused map[uint32]*RefusedError

// Error returns why a database does not open, nil if it does.
func (r Refused) Error(id uint32) error {
	if e := r[id]; e != nil {
		return e
	}
	return nil
}

// Errors returns why databases do not open, in the order of their ids.
func (r Refused) Errors() (out []error) {
	for _, id := range slices.Sorted(maps.Keys(r)) {
		out = append(out, r[id])
	}
	return out
}

// First returns the sequence of the first entry of the log that one of the databases needs,
// 0 if there is none.
func (r Refused) First() (first uint64) {
	for _, e := range r {
		if e.First != 0 && (first == 0 || e.First < first) {
			first = e.First
		}
	}
	return first
}

// Pin takes note of an entry that names a database, if that does not open.
func (r Refused) Pin(id uint32, sequence uint64) {
	if e := r[id]; e != nil && e.First == 0 {
		e.First = sequence
	}
}
