package inspect

import (
	"errors"

	"tsdbd/internal/binio"
)

// State is the outcome of a check in one word.
type State string

// The states. What is Older, Newer or Foreign is not checked further, and is not damaged.
const (
	Sound   State = "sound"
	Damaged State = "damaged"
	Older   State = "older"   // an older program has written it, from before formats were kept
	Newer   State = "newer"   // a newer program has written it
	Foreign State = "foreign" // it is not tsdbd's
)

// unread reports whether nothing but the state is known.
func (s State) unread() bool { return s == Older || s == Newer || s == Foreign }

// Unread returns the report for a directory that Verify or Hold refuses with an ErrNoData or
// a binio.ErrVersion. For other errors it is nil.
func Unread(dir string, err error) *VerifyReport {
	r := &VerifyReport{Dir: dir, State: Foreign, Problems: []Problem{}}
	var other *binio.VersionError
	switch {
	case errors.As(err, &other):
		r.State = State(other.Age())
	case !errors.Is(err, ErrNoData):
		return nil
	}
	return r
}
