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
	list    []T
	sorted  int // elements at the beginning of list that are in order, without equal ones
}

// slack is how many elements a Set takes at least before it sorts them.
const slack = 64

// New returns an empty set of at most limit elements; 0 is no limit. Before an element
// is kept, charge gets its bytes, and their negative when it is dropped. An error of
// charge is returned by Add: the set ends with it, and gives nothing back.
func New[T any](limit int, compare func(a, b T) int, bytes func(T) int64, charge func(bytes int64) error) *Set[T] {
	return &Set[T]{limit: limit, compare: compare, bytes: bytes, charge: charge}
}

// Wants reports whether Add would keep an element. It may return true for an element
// that the set already has.
func (s *Set[T]) Wants(x T) bool {
	if s.sorted > 0 && s.compare(x, s.list[s.sorted-1]) > 0 { // as of a sorted list
		return s.limit == 0 || s.sorted < s.limit
	}
	_, found := slices.BinarySearchFunc(s.list[:s.sorted], x, s.compare)
	return !found
}

// Add adds an element, unless Wants returns false.
func (s *Set[T]) Add(x T) error {
	if !s.Wants(x) {
		return nil
	}
	if err := s.charge(s.bytes(x)); err != nil {
		return err
	}
	s.list = append(s.list, x)
	if len(s.list)-s.sorted >= max(s.sorted, slack) {
		s.sort()
	}
	return nil
}

// sort sorts the elements, and drops equal ones and those beyond the limit.
func (s *Set[T]) sort() {
	slices.SortFunc(s.list, s.compare)
	n := 0
	dropped := int64(0)
	for _, x := range s.list {
		if n > 0 && s.compare(s.list[n-1], x) == 0 || s.limit > 0 && n == s.limit {
			dropped += s.bytes(x)
			continue
		}
		s.list[n] = x
		n++
	}
	clear(s.list[n:])
	s.list, s.sorted = s.list[:n], n
	_ = s.charge(-dropped) // giving back cannot fail
}

// Sorted returns the elements in their order. The slice belongs to the set.
func (s *Set[T]) Sorted() []T {
	s.sort()
	return s.list
}
