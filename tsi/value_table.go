package tsi

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

// valueTable numbers texts: the values of one tag key in a memtable. Numbers
// begin at 1; 0 is the empty text. It costs the text, a byte or two, 4 bytes,
// and 11 to 21 for finding it. Like a paged list, a copy of values can be read
// without the lock that add needs.
type valueTable struct {
	values valueList
	slots  *slots.Table
	free   []byte // unused rest of the newest chunk
}

// valueList are the texts of a valueTable by number-1: places in the chunks,
// where each text follows its length as a varint.
type valueList struct {
	chunks [][]byte
	places paged[uint64] // chunk<<32 | offset
}

// Chunks grow from small to large, for there are many tables of few values.
const (
	firstValueChunk = 128
	maxValueChunk   = 64 << 10
)

var valueSeed = maphash.MakeSeed()

func valueHash(text string) uint32 { return uint32(maphash.String(valueSeed, text) >> 32) }

// count returns the highest number given out.
func (l *valueList) count() int { return l.places.n }

// text returns the text of a number, sharing the table's memory.
func (l *valueList) text(number uint32) string {
	if number == 0 {
		return ""
	}
	place := l.places.at(int(number) - 1)
	b := l.chunks[place>>32][uint32(place):]
	n, k := binary.Uvarint(b)
	return unsafe.String(unsafe.SliceData(b[k:]), int(n))
}

// find returns the number of a text, 0 if it has none.
func (t *valueTable) find(text string) uint32 {
	if text == "" {
		return 0
	}
	return t.findHash(text, valueHash(text))
}

func (t *valueTable) findHash(text string, hash uint32) uint32 {
	for pos := -1; ; {
		n := t.slots.Next(hash, &pos)
		if n == 0 || t.values.text(n) == text {
			return n
		}
	}
}

// number returns the number of a text that is not empty, giving it one if need
// be. The text is copied.
func (t *valueTable) number(text string) uint32 {
	hash := valueHash(text)
	if n := t.findHash(text, hash); n != 0 {
		return n
	}
	need := binary.MaxVarintLen32 + len(text)
	if len(t.free) < need {
		size := max(min(firstValueChunk<<min(2*len(t.values.chunks), 16), maxValueChunk), need)
		t.free = make([]byte, size)
		t.values.chunks = append(t.values.chunks, t.free)
	}
	chunk := len(t.values.chunks) - 1
	at := len(t.values.chunks[chunk]) - len(t.free)
	n := binary.PutUvarint(t.free, uint64(len(text)))
	n += copy(t.free[n:], text)
	t.free = t.free[n:]
	t.values.places.add(uint64(chunk)<<32 | uint64(at))
	number := uint32(t.values.count())
	t.slots = t.slots.Room()
	t.slots.Insert(slots.Slot(hash, number))
	return number
}

// order returns the numbers that used holds for, in the order of their texts.
func (l *valueList) order(used func(number uint32) bool) []uint32 {
	type sortable struct {
		head   uint64 // first bytes behind what all texts share
		number uint32
	}
	list := make([]sortable, 0, l.count())
	shared := 0
	for n := uint32(1); int(n) <= l.count(); n++ {
		if !used(n) {
			continue
		}
		if len(list) == 0 {
			shared = len(l.text(n))
		} else {
			shared = keyblock.SharedPrefix(l.text(n), l.text(list[0].number)[:shared])
		}
		list = append(list, sortable{number: n})
	}
	for i := range list {
		var b [8]byte
		copy(b[:], l.text(list[i].number)[shared:])
		list[i].head = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(list, func(a, b sortable) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		return strings.Compare(l.text(a.number), l.text(b.number))
	})
	order := make([]uint32, len(list))
	for i := range list {
		order[i] = list[i].number
	}
	return order
}
