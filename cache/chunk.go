package cache

import (
	"math/bits"
	"sync/atomic"

	"tsdbd/model/point"
)

// Rows of a series lie in chunks of 1 to 32 rows, chunks are linked newest to
// oldest. A chunk in the arena:
//
//	word 0: link, reference of the previous chunk +1 (0: none)   36 bits
//	        layout number                                        28 bits
//	word 1: deleted rows, a bit each (atomic)                    32 bits
//	        rows used, set when a newer chunk is linked           8 bits
//	then per row: time, one word per field of the layout
//
// Words of a row never change once the row is published by the series' state;
// of the head only word 1 does, atomically.
//
// Both bounds of word 0 lie beyond the memory that Bytes counts: a link reaches
// 512 GiB of rows, and a layout of its own costs at least layoutCost.
const (
	linkBits    = 36
	linkMask    = 1<<linkBits - 1
	deletedMask = 1<<32 - 1
	usedShift   = 32

	headWords     = 2
	maxCapacity   = 5       // log2 of rows
	maxChunkWords = 4 << 10 // wide rows get fewer per chunk
)

// chunkView is a chunk as a reader sees it.
type chunkView struct {
	words  []uint64 // from the head on
	layout uint32
	stride int
	link   uint64
}

func viewAt(slabs [][]uint64, layouts []*point.Layout, ref uint64) chunkView {
	words := at(slabs, ref)
	layout := uint32(words[0] >> linkBits)
	return chunkView{words: words, layout: layout, stride: 1 + len(layouts[layout].Fields), link: words[0] & linkMask}
}

// chunkWalk walks the chunks of a series, newest first. Before next it is at none.
type chunkWalk struct {
	slabs   [][]uint64
	layouts []*point.Layout
	picture *Picture // nil: of the cache as it is
	before  uint64   // link to the next chunk
	newest  int      // rows of the newest chunk, which does not have their number; -1 behind it

	chunkView
	at   uint64 // link to the chunk
	head uint64 // word 1
	used int    // rows
}

func (w *chunkWalk) next() bool {
	if w.before == 0 {
		return false
	}
	w.at = w.before
	w.chunkView = viewAt(w.slabs, w.layouts, w.at-1)
	w.head = atomic.LoadUint64(&w.words[1])
	if w.picture != nil {
		w.head = w.picture.head(w.at, w.head)
	}
	if w.used = w.newest; w.used < 0 {
		w.used = int(w.head >> usedShift)
	}
	w.before, w.newest = w.link, -1
	return true
}

// row returns the words of row i: time and values.
func (v *chunkView) row(i int) []uint64 {
	o := headWords + i*v.stride
	return v.words[o : o+v.stride]
}

// openChunk links a new chunk of layout n to a series and closes the one
// before. The capacity follows what the series has shown: it doubles after a
// full chunk (1, 1, 2, 4 ... 32 rows), and falls to the run length after a
// change of layout.
func (c *Cache) openChunk(st *state, n uint32, fields int) {
	if st.newest != 0 {
		words := at(c.mu.arena.slabs, st.link()-1)
		orWord(&words[1], uint64(st.used)<<usedShift)
		if st.used == 1<<st.capacity {
			st.grow = min(st.grow+1, uint8(bits.Len32(st.rows)-1), maxCapacity)
		} else {
			st.grow = 0
			for 1<<st.grow < st.used {
				st.grow++
			}
		}
	}
	capacity := st.grow
	for capacity > 0 && (1+fields)<<capacity > maxChunkWords {
		capacity--
	}
	ref, words := c.mu.arena.alloc(headWords + (1+fields)<<capacity)
	words[0], words[1] = st.link()|uint64(n)<<linkBits, 0
	st.newest, st.capacity, st.used = (ref+1)|uint64(n)<<linkBits, capacity, 0
}
