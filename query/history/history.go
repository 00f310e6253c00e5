package history

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"tsdbd/query/admission"
)

// The bounds of a History.
const (
	maxShapes = 4096
	maxBytes  = 2 << 20
)

// Kept is how far back Since can look. A slot counts the queries that ended in slotTime.
const (
	Kept     = time.Hour
	slotTime = 5 * time.Minute
	slots    = int(Kept/slotTime) + 1 // the first one is a part of the hour
)

// mapBytes is what the map has of a shape in addition to the shape.
const mapBytes = 48

// History counts queries by their shape.
type History struct {
	redact func(string) string
	seed   maphash.Seed

	mu struct {
		sync.Mutex
		shapes    map[uint64]*shape // by the hash of what makes them differ
		bytes     int
		forgotten int64
	}
}

// New returns a History without a query. redact takes passwords out of a text, also out of
// one that is cut off or is no statement.
func New(redact func(string) string) *History {
	h := &History{redact: redact, seed: maphash.MakeSeed()}
	h.mu.shapes = map[uint64]*shape{}
	return h
}

// shape is what all queries of a shape have cost.
type shape struct {
	text, language, database, user string

	last  time.Time
	slots [slots]slot // by the number of the slot modulo slots
}

// slot is what the queries of a shape have cost that ended in a slot.
type slot struct {
	number        int64 // slots of this length since 1970
	count, errors uint32
	took, worst   time.Duration
	rows          int64
}

// bytes returns the memory of a shape.
func (s *shape) bytes() int {
	return int(unsafe.Sizeof(*s)) + mapBytes + len(s.text) + len(s.language) + len(s.database) + len(s.user)
}

// add counts a query.
func (s *shape) add(e *admission.Ended) {
	n := numberOf(e.At)
	at := &s.slots[n%int64(slots)]
	if at.number != n {
		*at = slot{number: n}
	}
	at.count++
	if e.Failed {
		at.errors++
	}
	at.took += e.Took
	at.worst = max(at.worst, e.Took)
	at.rows += e.Rows
	s.last = e.At
}

// numberOf returns the number of the slot of a time.
func numberOf(t time.Time) int64 { return t.Unix() / int64(slotTime/time.Second) }

// Query is what the queries of a shape have cost since a time.
type Query struct {
	// Text has ? where the queries have a time.
	Text, Language, Database, User string
	Count, Errors                  int64
	Took, Worst                    time.Duration // of all together, and of the slowest
	Rows                           int64
	Last                           time.Time // when one ended
}

// since adds up the slots from a number on.
func (s *shape) since(number int64) Query {
	q := Query{Text: s.text, Language: s.language, Database: s.database, User: s.user, Last: s.last}
	for i := range s.slots {
		if at := &s.slots[i]; at.number >= number {
			q.Count += int64(at.count)
			q.Errors += int64(at.errors)
			q.Took += at.took
			q.Worst = max(q.Worst, at.worst)
			q.Rows += at.rows
		}
	}
	return q
}

// Add counts a query that has ended.
func (h *History) Add(e *admission.Ended) {
	key := h.key(e)
	if !h.count(key, e, nil) {
		h.count(key, e, &shape{
			text: h.redact(normal(e.Text)), language: e.Language, database: strings.Clone(e.Database), user: strings.Clone(e.User),
		})
	}
}

// count counts a query. If its shape is new, it becomes first; without first, count returns
// false.
func (h *History) count(key uint64, e *admission.Ended, first *shape) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.mu.shapes[key]
	if s == nil {
		if first == nil {
			return false
		}
		s = first
		h.mu.shapes[key] = s
		h.mu.bytes += s.bytes()
	}
	s.add(e)
	if len(h.mu.shapes) > maxShapes || h.mu.bytes > maxBytes {
		h.trimLocked(e.At)
	}
	return true
}

// key returns the hash of what makes shapes differ.
func (h *History) key(e *admission.Ended) uint64 {
	var hash maphash.Hash
	hash.SetSeed(h.seed)
	for rest := e.Text; rest != ""; {
		start, end := literal(rest)
		_, _ = hash.WriteString(rest[:start])
		_ = hash.WriteByte(0)
		rest = rest[end:]
	}
	for _, name := range [...]string{e.Language, e.Database, e.User} {
		_, _ = hash.WriteString(name)
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}

// trimLocked forgets shapes until a quarter of the room is free: so it is rarely called.
func (h *History) trimLocked(now time.Time) {
	type candidate struct {
		key  uint64
		cost Query
	}
	oldest := numberOf(now.Add(-Kept))
	all := make([]candidate, 0, len(h.mu.shapes))
	for key, s := range h.mu.shapes {
		all = append(all, candidate{key, s.since(oldest)})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(min(a.cost.Count, 1), min(b.cost.Count, 1)), cmp.Compare(a.cost.Took, b.cost.Took), a.cost.Last.Compare(b.cost.Last))
	})
	for _, c := range all {
		if len(h.mu.shapes) <= maxShapes*3/4 && h.mu.bytes <= maxBytes*3/4 {
			break
		}
		h.mu.bytes -= h.mu.shapes[c.key].bytes()
		delete(h.mu.shapes, c.key)
		if c.cost.Count > 0 {
			h.mu.forgotten++
		}
	}
}

// Since returns the shapes that have queries in the slot of a time or behind it, with what
// they cost there: first what took the longest together. The other results are the time at
// which that slot begins, and how many shapes were forgotten for want of room since the
// start. keep chooses the shapes of users; nil: all.
func (h *History) Since(t time.Time, keep func(user string) bool) (list []Query, from time.Time, forgotten int64) {
	number := numberOf(t)
	h.mu.Lock()
	for _, s := range h.mu.shapes {
		if keep == nil || keep(s.user) {
			if q := s.since(number); q.Count > 0 {
				list = append(list, q)
			}
		}
	}
	forgotten = h.mu.forgotten
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b Query) int { return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Text, b.Text)) })
	return list, time.Unix(number*int64(slotTime/time.Second), 0), forgotten
}
