package dictionary

import (
	"math/bits"
	"slices"
)

// Ranks finds the place of an id among ascending ids: in a table of all ids of
// their span if these are near one another, else in words that tell which of 64
// ids are there and how many are before them.
type Ranks struct {
	ids   []uint32
	base  uint32
	dense []uint32   // place+1 of id-base, or nil
	words []rankWord // nil if the ids are too far apart
}

type rankWord struct {
	bits   uint64
	before uint32
}

// rankSpan is the span of ids up to which Ranks has words: 16 MiB of them.
const rankSpan = 1 << 26

// NewRanks returns the ranks of ids, at least one, ascending.
func NewRanks(ids []uint32) Ranks {
	r := Ranks{ids: ids, base: ids[0] &^ 63}
	span := uint64(ids[len(ids)-1]-r.base) + 1
	switch {
	case span <= 8*uint64(len(ids))+1<<16:
		r.dense = make([]uint32, span)
		for i, id := range ids {
			r.dense[id-r.base] = uint32(i) + 1
		}
		return r
	case span > rankSpan:
		return r
	}
	r.words = make([]rankWord, (ids[len(ids)-1]-r.base)/64+1)
	for _, id := range ids {
		r.words[(id-r.base)/64].bits |= 1 << (id & 63)
	}
	before := 0
	for i := range r.words {
		r.words[i].before = uint32(before)
		before += bits.OnesCount64(r.words[i].bits)
	}
	return r
}

// Of returns the place of id, or -1.
func (r *Ranks) Of(id uint32) int {
	if r.dense != nil {
		if i := id - r.base; i < uint32(len(r.dense)) {
			return int(r.dense[i]) - 1
		}
		return -1
	}
	if r.words != nil {
		i := (id - r.base) / 64
		if id < r.base || i >= uint32(len(r.words)) {
			return -1
		}
		w, bit := &r.words[i], uint64(1)<<(id&63)
		if w.bits&bit == 0 {
			return -1
		}
		return int(w.before) + bits.OnesCount64(w.bits&(bit-1))
	}
	if i, ok := slices.BinarySearch(r.ids, id); ok {
		return i
	}
	return -1
}
