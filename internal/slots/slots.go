// Package slots finds numbers by hash: an open-addressing set of pairs of a hash
// and a number. A hash may have many numbers, so the caller compares what the
// numbers mean. Nothing is ever removed from a Table; Keep copies part of one.
package slots

import "sync/atomic"

// Slot packs a hash and a number, which is not 0. Slots sort by hash.
func Slot(hash, number uint32) uint64 { return uint64(hash)<<32 | uint64(number) }

// Home returns where the probe of a hash starts among size places.
func Home(hash uint32, size int) int { return int(uint64(hash) * uint64(size) >> 32) }

// Table is a set of slots. nil is an empty one. One goroutine at a time may call
// Insert and Room, and any number may call Next at the same time.
type Table struct {
	words []uint64 // 0 where free; read and written atomically
	n     int
}

const firstSize = 16

// Len returns the number of slots.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return t.n
}

// Bytes returns how much memory the table takes.
func (t *Table) Bytes() int {
	if t == nil {
		return 0
	}
	return 8 * len(t.words)
}

// Room returns t if it has room for a slot more, else a copy half as large again.
// Readers of t do not see what the copy gets.
func (t *Table) Room() *Table {
	if t == nil {
		return &Table{words: make([]uint64, firstSize)}
	}
	if (t.n+1)*4 <= len(t.words)*3 {
		return t
	}
	return t.copied(len(t.words)+len(t.words)/2, func(uint32) bool { return true })
}

// Keep returns a copy with the n slots whose numbers keep returns true for.
func (t *Table) Keep(n int, keep func(number uint32) bool) *Table {
	if t == nil {
		return nil
	}
	return t.copied(max(firstSize, n+n/2), keep)
}

// copied returns a copy of the given size with the slots to keep. There must be room for them.
func (t *Table) copied(size int, keep func(number uint32) bool) *Table {
	c := &Table{words: make([]uint64, size)}
	for i := range t.words {
		if s := atomic.LoadUint64(&t.words[i]); s != 0 && keep(uint32(s)) {
			c.Insert(s)
		}
	}
	return c
}

// Insert adds a slot. There must be room.
func (t *Table) Insert(slot uint64) {
	i := t.place(slot)
	if t.words[i] == 0 {
		atomic.StoreUint64(&t.words[i], slot)
		t.n++
	}
}

// place returns where a slot is, or the free place for it.
func (t *Table) place(slot uint64) int {
	i := Home(uint32(slot>>32), len(t.words))
	for t.words[i] != 0 && t.words[i] != slot {
		if i++; i == len(t.words) {
			i = 0
		}
	}
	return i
}

// Next returns the first number of the hash at or after probe position *pos,
// and moves *pos behind it; 0 ends the probe. Start with *pos = -1.
func (t *Table) Next(hash uint32, pos *int) uint32 {
	if t == nil {
		return 0
	}
	i := *pos
	if i < 0 {
		i = Home(hash, len(t.words))
	}
	for {
		s := atomic.LoadUint64(&t.words[i])
		if s == 0 {
			return 0
		}
		if i++; i == len(t.words) {
			i = 0
		}
		if uint32(s>>32) == hash {
			*pos = i
			return uint32(s)
		}
	}
}

// All returns the slots, unsorted.
func (t *Table) All() []uint64 {
	if t == nil {
		return nil
	}
	dst := make([]uint64, 0, t.n)
	for _, s := range t.words {
		if s != 0 {
			dst = append(dst, s)
		}
	}
	return dst
}
