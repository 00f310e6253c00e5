package paged

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"unsafe"

	"tsdbd/internal/keyblock"
	"tsdbd/internal/slots"
)

// TextTable numbers texts: the values of one tag key in a memtable. Numbers
// begin at 1; 0 is the empty text. It costs the text, a byte or two, 4 bytes,
// and 11 to 21 for finding it. Like a list, a copy of its Texts can be read
// without the lock that Number needs.
type TextTable struct {
	Texts
	slots *slots.Table
	free  []byte // unused rest of the newest chunk
}

// Texts are the texts of a TextTable by number-1: places in the chunks,
// where each text follows its length as a varint.
type Texts struct {
	chunks [][]byte
	places List[uint64] // chunk<<32 | offset
}

// Chunks grow from small to large, for there are many tables of few values.
const (
	firstChunk = 128
	maxChunk   = 64 << 10
)

var seed = maphash.MakeSeed()

func hashOf(text string) uint32 { return uint32(maphash.String(seed, text) >> 32) }

// Count returns the highest number given out.
func (l *Texts) Count() int { return l.places.n }

// Text returns the text of a number, sharing the table's memory.
func (l *Texts) Text(number uint32) string {
	if number == 0 {
		return ""
	}
	place := l.places.At(int(number) - 1)
	b := l.chunks[place>>32][uint32(place):]
	n, k := binary.Uvarint(b)
	return unsafe.String(unsafe.SliceData(b[k:]), int(n))
}

// Find returns the number of a text, 0 if it has none.
func (t *TextTable) Find(text string) uint32 {
	if text == "" {
		return 0
	}
	return t.findHash(text, hashOf(text))
}

func (t *TextTable) findHash(text string, hash uint32) uint32 {
	for pos := -1; ; {
		n := t.slots.Next(hash, &pos)
		if n == 0 || t.Text(n) == text {
			return n
		}
	}
}

// Number returns the number of a text that is not empty. A text that is new gets the
// next number, and is copied.
func (t *TextTable) Number(text string) (number uint32, added bool) {
	hash := hashOf(text)
	if n := t.findHash(text, hash); n != 0 {
		return n, false
	}
	need := binary.MaxVarintLen32 + len(text)
	if len(t.free) < need {
		size := max(min(firstChunk<<min(2*len(t.chunks), 16), maxChunk), need)
		t.free = make([]byte, size)
		t.chunks = append(t.chunks, t.free)
	}
	chunk := len(t.chunks) - 1
	at := len(t.chunks[chunk]) - len(t.free)
	n := binary.PutUvarint(t.free, uint64(len(text)))
	n += copy(t.free[n:], text)
	t.free = t.free[n:]
	t.places.Add(uint64(chunk)<<32 | uint64(at))
	number = uint32(t.Count())
	t.slots = t.slots.Room()
	t.slots.Insert(slots.Slot(hash, number))
	return number, true
}

// Order returns the numbers that used holds for, in the order of their texts.
func (l *Texts) Order(used func(number uint32) bool) []uint32 {
	type sortable struct {
		head   uint64 // first bytes behind what all texts share
		number uint32
	}
	list := make([]sortable, 0, l.Count())
	shared := 0
	for n := uint32(1); int(n) <= l.Count(); n++ {
		if !used(n) {
			continue
		}
		if len(list) == 0 {
			shared = len(l.Text(n))
		} else {
			shared = keyblock.SharedPrefix(l.Text(n), l.Text(list[0].number)[:shared])
		}
		list = append(list, sortable{number: n})
	}
	for i := range list {
		var b [8]byte
		copy(b[:], l.Text(list[i].number)[shared:])
		list[i].head = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(list, func(a, b sortable) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		return strings.Compare(l.Text(a.number), l.Text(b.number))
	})
	order := make([]uint32, len(list))
	for i := range list {
		order[i] = list[i].number
	}
	return order
}

// Extremes returns the numbers of the first limit used texts, or of the last,
// in the order of the texts.
func (l *Texts) Extremes(used []bool, limit int, last bool) []uint32 {
	out := make([]uint32, 0, limit+1)
	for n := uint32(1); int(n) < len(used); n++ {
		if !used[n] {
			continue
		}
		text := l.Text(n)
		if len(out) == limit {
			if last && text <= l.Text(out[0]) || !last && text >= l.Text(out[limit-1]) {
				continue
			}
		}
		at, _ := slices.BinarySearchFunc(out, text, func(n uint32, text string) int { return strings.Compare(l.Text(n), text) })
		out = slices.Insert(out, at, n)
		if len(out) > limit {
			if last {
				out = slices.Delete(out, 0, 1)
			} else {
				out = out[:limit]
			}
		}
	}
	return out
}
