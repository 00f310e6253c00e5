package tsi

// paged is a list that only grows, in pages: growing copies next to nothing,
// and a copy of the struct, taken under the owner's lock, can be read without
// it, for what it names never changes.
type paged[T any] struct {
	pages [][]T
	n     int
}

const (
	pagedBits  = 12
	pagedLen   = 1 << pagedBits
	pagedFirst = 8 // size that the first page begins with: most lists are short
)

// add appends v.
func (p *paged[T]) add(v T) {
	k, i := p.n>>pagedBits, p.n&(pagedLen-1)
	switch {
	case k == len(p.pages):
		size := pagedLen
		if k == 0 {
			size = pagedFirst
		}
		p.pages = append(p.pages, make([]T, size))
	case i == len(p.pages[k]): // the first page
		grown := make([]T, min(4*i, pagedLen))
		copy(grown, p.pages[k])
		p.pages = [][]T{grown}
	}
	p.pages[k][i] = v
	p.n++
}

func (p *paged[T]) at(i int) T { return p.pages[i>>pagedBits][i&(pagedLen-1)] }

// each calls fn with the pages in order, each without what is not used yet,
// and the place of its first element.
func (p *paged[T]) each(fn func(first int, page []T)) {
	for k, page := range p.pages {
		first := k << pagedBits
		fn(first, page[:min(len(page), p.n-first)])
	}
}

// numbers are a paged list with the bounds of each page.
type numbers struct {
	paged[uint32]
	filling span   // of the page that is not full
	full    []span // of the pages before it
}

type span struct{ low, high uint32 }

// add appends v.
func (l *numbers) add(v uint32) {
	if l.n&(pagedLen-1) == 0 {
		if l.n > 0 {
			l.full = append(l.full, l.filling)
		}
		l.filling = span{v, v}
	}
	l.filling = span{min(l.filling.low, v), max(l.filling.high, v)}
	l.paged.add(v)
}

// eachWith is each for the pages that may have v.
func (l *numbers) eachWith(v uint32, fn func(first int, page []uint32)) {
	l.each(func(first int, page []uint32) {
		if k := first >> pagedBits; k >= len(l.full) || v >= l.full[k].low && v <= l.full[k].high {
			fn(first, page)
		}
	})
}
