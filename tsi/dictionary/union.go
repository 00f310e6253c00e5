package dictionary

import (
	"bytes"
	"container/heap"
	"slices"
)

// UnionBytes is about the memory of a tag with a page of values in a Union.
const UnionBytes = 400

// Union walks the values of several tags, ascending.
type Union struct {
	Value []byte   // valid until the next move
	Tags  []uint32 // numbers of the tags that have it, ascending
	heap  numberedCursors
	err   error
}

// Reserve makes room for n tags.
func (u *Union) Reserve(n int) { u.heap = slices.Grow(u.heap, n) }

// Add adds a tag with a number. All are added before the first Next.
func (u *Union) Add(source Source, t *Tag, number uint32) {
	u.push(numberedCursor{t.Cursor(source), number})
}

// Err returns what ended the walk too early, or nil.
func (u *Union) Err() error { return u.err }

func (u *Union) push(c numberedCursor) {
	if c.Next() {
		heap.Push(&u.heap, c)
	} else if c.err != nil && u.err == nil {
		u.err = c.err
	}
}

// Next moves to the next value; false at the end or on error.
func (u *Union) Next() bool {
	if len(u.heap) == 0 || u.err != nil {
		return false
	}
	u.Value, u.Tags = append(u.Value[:0], u.heap[0].Value...), u.Tags[:0]
	for u.err == nil && len(u.heap) > 0 && bytes.Equal(u.heap[0].Value, u.Value) {
		c := &u.heap[0]
		u.Tags = append(u.Tags, c.number)
		switch {
		case c.Next():
			heap.Fix(&u.heap, 0)
		case c.err != nil:
			u.err = c.err
		default:
			heap.Pop(&u.heap)
		}
	}
	return u.err == nil
}

type numberedCursor struct {
	*Cursor
	number uint32
}

// numberedCursors is a heap by value, then by number.
type numberedCursors []numberedCursor

func (h numberedCursors) Len() int      { return len(h) }
func (h numberedCursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *numberedCursors) Push(x any)   { *h = append(*h, x.(numberedCursor)) }
func (h numberedCursors) Less(i, j int) bool {
	c := bytes.Compare(h[i].Value, h[j].Value)
	return c < 0 || c == 0 && h[i].number < h[j].number
}

func (h *numberedCursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
