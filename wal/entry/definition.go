package entry

import (
	"encoding/binary"

	"github.com/golang/snappy"
)

// A block of series definitions holds, repeated to its end:
//
//	database uv, id uv, key length uv, key
//
// packed by Snappy when that is larger than snappyFrom bytes and pays.

const (
	// maxDefinitions is the largest plain size of a block of definitions.
	maxDefinitions = 256 << 10
	snappyFrom     = 256
)

// seriesSet tells which series ids of one database the open segment defines:
// bits in pages, so that a few high ids do not take memory for all lower ones.
type seriesSet struct {
	pages map[uint32]*seriesPage
	last  *seriesPage
	page  uint32
}

const pageBits = 1 << 15

type seriesPage [pageBits / 64]uint64

// add puts id into the set and reports whether it was not there.
func (s *seriesSet) add(id uint32) bool {
	if p := id / pageBits; s.last == nil || p != s.page {
		if s.pages == nil {
			s.pages = make(map[uint32]*seriesPage)
		}
		s.page, s.last = p, s.pages[p]
		if s.last == nil {
			s.last = new(seriesPage)
			s.pages[p] = s.last
		}
	}
	word, bit := &s.last[id%pageBits/64], uint64(1)<<(id%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// Definitions tells which series a reader knows, and what has to be defined to it
// before an entry. The zero value is of a reader that knows none.
type Definitions struct {
	sets map[uint32]*seriesSet
	raw  []byte
	comp []byte
}

// Reset forgets what was defined: the reader is a new one, or blocks were taken
// back.
func (f *Definitions) Reset() {
	for _, s := range f.sets {
		for _, p := range s.pages {
			clear(p[:])
		}
	}
}

// Append calls emit with blocks that define the series of e which the reader does
// not know. ids are those of its rows in order, see Encoder.IDs. A block is valid
// during the call only.
func (f *Definitions) Append(e *Entry, ids []uint32, emit func(block []byte, packed bool)) {
	if f.sets == nil {
		f.sets = make(map[uint32]*seriesSet)
	}
	f.raw = f.raw[:0]
	for i := range e.Writes {
		w := &e.Writes[i]
		set := f.sets[w.Database]
		if set == nil {
			set = new(seriesSet)
			f.sets[w.Database] = set
		}
		for r, id := range ids[:len(w.Rows)] {
			if !set.add(id) {
				continue
			}
			key := w.Rows[r].Series.Key()
			if len(f.raw)+len(key)+3*binary.MaxVarintLen64 > maxDefinitions {
				f.flush(emit)
			}
			f.raw = binary.AppendUvarint(f.raw, uint64(w.Database))
			f.raw = binary.AppendUvarint(f.raw, uint64(id))
			f.raw = binary.AppendUvarint(f.raw, uint64(len(key)))
			f.raw = append(f.raw, key...)
		}
		ids = ids[len(w.Rows):]
	}
	f.flush(emit)
}

func (f *Definitions) flush(emit func(block []byte, packed bool)) {
	if len(f.raw) == 0 {
		return
	}
	block, packed := f.raw, false
	if len(f.raw) > snappyFrom {
		if n := snappy.MaxEncodedLen(len(f.raw)); cap(f.comp) < n {
			f.comp = make([]byte, n)
		}
		if c := snappy.Encode(f.comp[:cap(f.comp)], f.raw); len(c) < len(f.raw) {
			block, packed = c, true
		}
	}
	emit(block, packed)
	f.raw = f.raw[:0]
}
