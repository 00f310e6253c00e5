package point

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"unsafe"
)

// chunkBytes is about the memory of a chunk and of the slots of its entries.
const chunkBytes = int64(unsafe.Sizeof(chunk{})) + 12*(chunkSize-1)

// Trim returns a table that has at most seven eighths of the memory of t. It forgets pieces of key
// memory with their entries: first those in which no entry was found since it was made, then
// those in which none was found for the most Trims, and of equal ones any. So series that come
// once make no room for themselves. To forget the oldest would be to forget what comes next,
// where all series come in turn and there is no room for all.
//
// Both tables may be used at the same time. They share the entries that are kept, so series of both
// are the same where the new table has them. t keeps no more layouts. The caller puts the new
// table in the place of t; batches that were parsed with t stay valid.
func (t *Table) Trim() *Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view.Load()
	trimmed := &Table{database: t.database, seed: t.seed, second: t.second}
	trimmed.mu.layouts, trimmed.mu.layoutBytes = uint32(len(v.layouts)), t.mu.layoutBytes
	w := &View{layouts: v.layouts[:len(v.layouts):len(v.layouts)], layoutSlots: v.layoutSlots.Keep(len(v.layouts), func(uint32) bool { return true })}
	trimmed.view.Store(w)

	// t goes on with the newest piece.
	full := max(len(v.pieces)-1, 0)
	w.pieces = append(make([]piece, 0, len(v.pieces)), v.pieces[:full]...)
	bytes := make([]int64, full) // of pieces that are kept, and of their entries and slots
	total := trimmed.Bytes()
	var order []int // which go first
	for _, i := range rand.Perm(full) {
		if w.pieces[i].bytes != nil {
			bytes[i] = int64(len(w.pieces[i].bytes))
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(w.pieces[i].use.Load(), w.pieces[j].use.Load()) })
	for _, c := range v.chunks {
		if c != nil && int(c.piece) < full {
			bytes[c.piece] += chunkBytes
		}
	}
	for _, n := range bytes {
		total += n
	}
	most := t.bytesLocked() / 8 * 7
	for _, i := range order {
		if total > most {
			total -= bytes[i]
			w.pieces[i] = piece{}
		} else if n := w.pieces[i].use.Load(); n > 0 {
			w.pieces[i].use.Store(n - 1)
		}
	}
	if len(v.layouts) > maxLayouts/2 || len(v.pieces) > maxPieces/2 || len(v.chunks) > 1<<(31-chunkBits) {
		return NewTable(t.database)
	}
	t.mu.layouts = maxLayouts // those of the new table have its numbers

	kept := make([][chunkSize / 64]uint64, len(v.chunks)) // a bit an entry
	entries := 0
	for i, c := range v.chunks {
		if c != nil && (int(c.piece) >= full || w.pieces[c.piece].bytes == nil) {
			c = nil
		}
		w.chunks = append(w.chunks, c)
		if c == nil {
			continue
		}
		trimmed.mu.chunks++
		for k := range c.entries {
			e := &c.entries[k]
			if e.series.slot == 0 || !w.alive(e) {
				continue // the place was not taken
			}
			entries++
			kept[i][(k+1)/64] |= 1 << ((k + 1) % 64)
			if e.series.slot&isKey != 0 {
				trimmed.mu.series++
			}
			if e.series.slot&(isSpelling|isPrint) != 0 {
				trimmed.mu.spellings++
			}
		}
	}
	w.chunks = append(w.chunks, nil) // no table adds to a chunk of another one
	trimmed.mu.last = uint32(len(w.chunks))<<chunkBits - 1
	w.entrySlots = v.entrySlots.Keep(entries, func(n uint32) bool {
		return kept[n>>chunkBits][n&(chunkSize-1)/64]&(1<<(n%64)) != 0
	})
	for i := range w.pieces {
		trimmed.mu.keyBytes += int64(len(w.pieces[i].bytes))
	}
	if trimmed.bytesLocked() > most { // as of very many layouts
		return NewTable(t.database)
	}
	return trimmed
}
