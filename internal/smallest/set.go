// Package smallest keeps the smallest of many elements in bounded memory.
package smallest

import "slices"

// Set is an ordered set. With a limit it holds the smallest elements that were added, in
// memory that is proportional to the limit. It belongs to one goroutine.
type Set[T any] struct {
	limit   int
	compare func(a, b T) int
	bytes   func(T) int64
	charge  func(bytes int64) error
	room    int64 // charged, and not taken
	list    []T
	sorted  int // elements at the beginning of list that are in order, without equal ones
}

// slack is how many elements a Set takes at least before it sorts them.
const slack = 64

// ahead is how many bytes are charged at once: charge may take longer than Add.
const ahead = 1024

// New returns an empty set of at most limit elements; 0 is no limit. Before elements
// are kept, charge gets their bytes, and maybe those of the next ones. Sorted gives back what
// is not in the set. An error of charge is returned by Add: the set ends with it, and gives
// nothing back.
func New[T any](limit int, compare func(a, b T) int, bytes func(T) int64, charge func(bytes int64) error) *Set[T] {
	return &Set[T]{limit: limit, compare: compare, bytes: bytes, charge: charge}
}

// Wants reports whether Add would keep an element. It may return true for an element
// that the set already has.
func (s *Set[T]) Wants(x T) bool {
	wants, _ := s.wants(x)
	return wants
}

// wants says as well whether the element is behind all that are in order.
func (s *Set[T]) wants(x T) (wants, behind bool) {
	if s.sorted == 0 || s.compare(x, s.list[s.sorted-1]) > 0 {
		return s.limit == 0 || s.sorted < s.limit, true
	}
	_, found := slices.BinarySearchFunc(s.list[:s.sorted], x, s.compare)
	return !found, false
}

// Add adds an element, unless Wants returns false.
func (s *Set[T]) Add(x T) error {
	wants, behind := s.wants(x)
	if !wants {
		return nil
	}
	bytes := s.bytes(x)
	if more := bytes - s.room; more > 0 {
		more = max(more, ahead)
		if err := s.charge(more); err != nil {
			return err
		}
		s.room += more
	}
	s.room -= bytes
	s.list = append(s.list, x)
	switch n := len(s.list); {
	case behind && s.sorted == n-1: // elements that ascend need no sorting
		s.sorted = n
	case n-s.sorted >= max(s.sorted, slack):
		s.sort()
	}
	return nil
}

// sort sorts the elements, and drops equal ones and those beyond the limit.
func (s *Set[T]) sort() {
	if s.sorted == len(s.list) {
		return
	}
	slices.SortFunc(s.list, s.compare)
	n := 0
	for _, x := range s.list {
		if n > 0 && s.compare(s.list[n-1], x) == 0 || s.limit > 0 && n == s.limit {
			s.room += s.bytes(x)
			continue
		}
		s.list[n] = x
		n++
	}
	clear(s.list[n:])
	s.list, s.sorted = s.list[:n], n
}

// Sorted returns the elements in their order. The slice belongs to the set.
func (s *Set[T]) Sorted() []T {
	s.sort()
	if s.room > 0 {
		_ = s.charge(-s.room) // giving back cannot fail
		s.room = 0
	}
	return s.list
}
