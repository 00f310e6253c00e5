// Package slots finds numbers by hash: an open-addressing set of pairs of a hash
// and a number. A hash may have many numbers, so the caller compares what the
// numbers stand for. Nothing is ever removed.
package slots

// Slot packs a hash and a number, which is not 0. Slots sort by hash.
func Slot(hash, number uint32) uint64 { return uint64(hash)<<32 | uint64(number) }

// Home returns where the probe of a hash starts among size places.
func Home(hash uint32, size int) int { return int(uint64(hash) * uint64(size) >> 32) }

// Table is a set of slots. Its zero value is empty. It is used by one goroutine
// at a time.
type Table struct {
	words []uint64 // 0 where free
	n     int
}

// Len returns the number of slots.
func (t *Table) Len() int { return t.n }

// Bytes returns how much memory the table takes.
func (t *Table) Bytes() int { return 8 * len(t.words) }

// Insert adds a slot.
func (t *Table) Insert(slot uint64) {
	if (t.n+1)*4 > len(t.words)*3 {
		t.grow()
	}
	i := Home(uint32(slot>>32), len(t.words))
	for t.words[i] != 0 {
		if t.words[i] == slot {
			return
		}
		if i++; i == len(t.words) {
			i = 0
		}
	}
	t.words[i] = slot
	t.n++
}

func (t *Table) grow() {
	old := t.words
	t.words, t.n = make([]uint64, max(16, 2*len(old))), 0
	for _, s := range old {
		if s != 0 {
			t.Insert(s)
		}
	}
}

// Next returns the first number of the hash at or after probe position *pos,
// and moves *pos behind it; 0 ends the probe. Start with *pos = -1.
func (t *Table) Next(hash uint32, pos *int) uint32 {
	if len(t.words) == 0 {
		return 0
	}
	i := *pos
	if i < 0 {
		i = Home(hash, len(t.words))
	}
	for {
		s := t.words[i]
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
	dst := make([]uint64, 0, t.n)
	for _, s := range t.words {
		if s != 0 {
			dst = append(dst, s)
		}
	}
	return dst
}
