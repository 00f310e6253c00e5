package wal

import (
	"encoding/binary"

	"github.com/golang/snappy"
)

// A record of series definitions holds, repeated to its end:
//
//	database uv, id uv, key length uv, key
//
// as a snappy block when that is larger than snappyFrom bytes and pays.

const (
	// maxDefinitions is the largest plain size of a record of definitions.
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

// definitions collects what the open segment has to define before an entry.
// Only the committer uses it.
type definitions struct {
	sets map[uint32]*seriesSet
	raw  []byte
	comp []byte
}

// reset forgets what was defined: the segment is a new one, or records that
// held definitions were taken back.
func (f *definitions) reset() {
	for _, s := range f.sets {
		for _, p := range s.pages {
			clear(p[:])
		}
	}
}

// append appends records that define the series of e which the segment does not
// define yet. ids are those of its rows in order; mark is added to the flags of
// the record that comes first in dst.
func (f *definitions) append(dst []byte, segment, sequence uint64, mark byte, e *Entry, ids []uint32) []byte {
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
				dst = f.flush(dst, segment, sequence, mark)
			}
			f.raw = binary.AppendUvarint(f.raw, uint64(w.Database))
			f.raw = binary.AppendUvarint(f.raw, uint64(id))
			f.raw = binary.AppendUvarint(f.raw, uint64(len(key)))
			f.raw = append(f.raw, key...)
		}
		ids = ids[len(w.Rows):]
	}
	return f.flush(dst, segment, sequence, mark)
}

func (f *definitions) flush(dst []byte, segment, sequence uint64, mark byte) []byte {
	if len(f.raw) == 0 {
		return dst
	}
	payload, flags := f.raw, byte(0)
	if len(f.raw) > snappyFrom {
		if n := snappy.MaxEncodedLen(len(f.raw)); cap(f.comp) < n {
			f.comp = make([]byte, n)
		}
		if c := snappy.Encode(f.comp[:cap(f.comp)], f.raw); len(c) < len(f.raw) {
			payload, flags = c, flagSnappy
		}
	}
	if len(dst) == 0 {
		flags |= mark
	}
	dst = appendRecord(dst, segment, sequence, typeSeries, flags, 0, payload)
	f.raw = f.raw[:0]
	return dst
}
