package paged

import "strings"

// Arena makes strings of many short texts with few allocations. The
// memory of a piece is kept until none of its texts is.
type Arena struct {
	b      strings.Builder
	Charge func(bytes int64) error // before memory is taken; nil: nobody is
	owed   int                     // bytes not charged yet, few
}

const (
	// ArenaBytes is the largest piece of memory for several texts, and
	// smallArenaBytes the first.
	ArenaBytes      = 16 << 10
	smallArenaBytes = 512
	// TextHeaderBytes is the size of a string in a list without its text, and
	// MapEntryBytes that in a map.
	TextHeaderBytes = 16
	MapEntryBytes   = 64
)

// Take charges for n bytes, some of them later.
func (a *Arena) Take(n int) error {
	if a.Charge == nil {
		return nil
	}
	if a.owed += n; a.owed < ArenaBytes {
		return nil
	}
	return a.Settle()
}

// Settle charges for what has not been charged yet.
func (a *Arena) Settle() error {
	owed := a.owed
	if a.owed = 0; owed == 0 {
		return nil
	}
	return a.Charge(int64(owed))
}

// Add returns a text as a string.
func (a *Arena) Add(text []byte) (string, error) {
	if a.b.Len()+len(text) > a.b.Cap() {
		if len(text) > ArenaBytes/4 {
			if err := a.Take(TextHeaderBytes + len(text)); err != nil {
				return "", err
			}
			return string(text), nil
		}
		size := max(min(2*a.b.Cap(), ArenaBytes), smallArenaBytes, len(text))
		if err := a.Take(size); err != nil {
			return "", err
		}
		a.b = strings.Builder{}
		a.b.Grow(size)
	}
	start := a.b.Len()
	a.b.Write(text)
	return a.b.String()[start:], a.Take(TextHeaderBytes)
}
