// Package unflushed keeps at hand which shards have anything that only the log keeps safe, by
// the first entry that has it, and chooses the one to flush next. So it costs the same with one
// shard and with thousands. A List is guarded by its owner.
package unflushed

import (
	"container/list"
	"iter"
)

// Place is where a shard is in a List. The zero value is nowhere.
type Place struct {
	element *list.Element
	Since   uint64 // sequence of the first entry, if there is a place
}

// Taken reports whether the shard is in the list.
func (p *Place) Taken() bool { return p.element != nil }

// List has shards in the order of their first entries.
type List[S Shard] struct{ list list.List }

type element[S Shard] struct {
	shard S
	place *Place
}

// Put gives a shard its place.
func (l *List[S]) Put(sh S, p *Place, first uint64) {
	if p.Taken() && first == p.Since {
		return
	}
	l.Remove(p)
	// Few shards had their first entry since, most often none.
	at := l.list.Back()
	for at != nil && at.Value.(element[S]).place.Since > first {
		at = at.Prev()
	}
	p.Since = first
	if e := (element[S]{sh, p}); at == nil {
		p.element = l.list.PushFront(e)
	} else {
		p.element = l.list.InsertAfter(e, at)
	}
}

// Remove takes a shard out.
func (l *List[S]) Remove(p *Place) {
	if p.Taken() {
		l.list.Remove(p.element)
		p.element = nil
	}
}

// All returns the shards, the one with the oldest entry first.
func (l *List[S]) All() iter.Seq[S] {
	return func(yield func(S) bool) {
		for at := l.list.Front(); at != nil && yield(at.Value.(element[S]).shard); at = at.Next() {
		}
	}
}
