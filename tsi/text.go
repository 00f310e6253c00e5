package tsi

import "strings"

// textArena makes strings of many short texts with few allocations. The
// memory of a piece is kept until none of its texts is.
type textArena struct {
	b      strings.Builder
	charge func(bytes int64) error // before memory is taken; nil: nobody is
	owed   int                     // bytes not charged yet, few
}

const (
	// arenaBytes is the largest piece of memory for several texts, and
	// smallArenaBytes the first.
	arenaBytes      = 16 << 10
	smallArenaBytes = 512
	// textHeaderBytes is the size of a string in a list without its text, and
	// mapEntryBytes that in a map.
	textHeaderBytes = 16
	mapEntryBytes   = 64
)

// take charges for n bytes, some of them later.
func (a *textArena) take(n int) error {
	if a.charge == nil {
		return nil
	}
	if a.owed += n; a.owed < arenaBytes {
		return nil
	}
	return a.settle()
}

// settle charges for what has not been charged yet.
func (a *textArena) settle() error {
	owed := a.owed
	if a.owed = 0; owed == 0 {
		return nil
	}
	return a.charge(int64(owed))
}

func (a *textArena) add(text []byte) (string, error) {
	if a.b.Len()+len(text) > a.b.Cap() {
		if len(text) > arenaBytes/4 {
			if err := a.take(textHeaderBytes + len(text)); err != nil {
				return "", err
			}
			return string(text), nil
		}
		size := max(min(2*a.b.Cap(), arenaBytes), smallArenaBytes, len(text))
		if err := a.take(size); err != nil {
			return "", err
		}
		a.b = strings.Builder{}
		a.b.Grow(size)
	}
	start := a.b.Len()
	a.b.Write(text)
	return a.b.String()[start:], a.take(textHeaderBytes)
}
