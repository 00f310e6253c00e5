// Package paged has lists that only grow, for one writer and readers without a lock, and memory
// for short texts in pieces.
package paged

// List is a list that only grows, in pages: growing copies next to nothing,
// and a copy of the struct, taken under the owner's lock, can be read without
// it, for what it names never changes.
type List[T any] struct {
	pages [][]T
	n     int
}

const (
	pageBits  = 12
	pageLen   = 1 << pageBits
	firstPage = 8 // size that the first page begins with: most lists are short
)

// Add appends v.
func (p *List[T]) Add(v T) {
	k, i := p.n>>pageBits, p.n&(pageLen-1)
	switch {
	case k == len(p.pages):
		size := pageLen
		if k == 0 {
			size = firstPage
		}
		p.pages = append(p.pages, make([]T, size))
	case i == len(p.pages[k]): // the first page
		grown := make([]T, min(4*i, pageLen))
		copy(grown, p.pages[k])
		p.pages = [][]T{grown}
	}
	p.pages[k][i] = v
	p.n++
}

// Len returns the number of elements.
func (p *List[T]) Len() int { return p.n }

// At returns an element.
func (p *List[T]) At(i int) T { return p.pages[i>>pageBits][i&(pageLen-1)] }

// Each calls fn with the pages in order, each without what is not used yet,
// and the place of its first element.
func (p *List[T]) Each(fn func(first int, page []T)) {
	for k, page := range p.pages {
		first := k << pageBits
		fn(first, page[:min(len(page), p.n-first)])
	}
}

// Numbers are a paged list with the bounds of each page.
type Numbers struct {
	List[uint32]
	filling span   // of the page that is not full
	full    []span // of the pages before it
}

type span struct{ low, high uint32 }

// Add appends v.
func (l *Numbers) Add(v uint32) {
	if l.n&(pageLen-1) == 0 {
		if l.n > 0 {
			l.full = append(l.full, l.filling)
		}
		l.filling = span{v, v}
	}
	l.filling = span{min(l.filling.low, v), max(l.filling.high, v)}
	l.List.Add(v)
}

// EachWith is Each for the pages that may have v.
func (l *Numbers) EachWith(v uint32, fn func(first int, page []uint32)) {
	l.Each(func(first int, page []uint32) {
		if k := first >> pageBits; k >= len(l.full) || v >= l.full[k].low && v <= l.full[k].high {
			fn(first, page)
		}
	})
}
