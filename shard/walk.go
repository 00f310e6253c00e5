package shard

import (
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
)

// walk visits the series of a set: by id, or in file order if one file, or files
// that split a run by series, hold all of them and the set is a good part of it.
type walk struct {
	byID roaring.IntPeekable // nil: in file order

	source  int              // in use
	ordinal int              // of ids[0] in the source
	ids     []model.SeriesID // that come next in the source
	page    []model.SeriesID // memory of ids
	base    uint32           // of dense
	dense   []uint64         // the set as bits
}

func newWalk(set *roaring.Bitmap, p *pieces) walk {
	n := set.GetCardinality()
	if n > 0 && len(p.parts) > 0 && n >= fileSeries(p.parts)/8 && !p.door.MovedAny(set) {
		if span := uint64(set.Maximum()-set.Minimum()) + 1; span <= 64*n+1024 {
			w := walk{base: set.Minimum(), dense: make([]uint64, (span+63)/64)}
			it := set.ManyIterator()
			var buf [1024]uint32
			for k := it.NextMany(buf[:]); k > 0; k = it.NextMany(buf[:]) {
				for _, id := range buf[:k] {
					w.dense[(id-w.base)>>6] |= 1 << ((id - w.base) & 63)
				}
			}
			return w
		}
	}
	return walk{byID: set.Iterator()}
}

// fileSeries returns the number of series of the parts if they are files, no series is in
// two of them, and all of them count, else a number that is too large.
func fileSeries(parts []source) uint64 {
	n := uint64(0)
	for i := range parts {
		f := parts[i].file
		if f == nil || f.Gone != nil || i > 0 && !f.splits(parts[0].file) {
			return math.MaxUint64
		}
		n += uint64(f.reader.Len())
	}
	return n
}

// step moves the pieces to the next series, which may have no rows.
func (w *walk) step(p *pieces) (ok bool, err error) {
	if w.byID != nil {
		if !w.byID.HasNext() {
			return false, nil
		}
		err := p.find(model.SeriesID(w.byID.Next()))
		return err == nil, err
	}
	for w.source < len(p.parts) {
		s := &p.parts[w.source]
		for k, id := range w.ids {
			off := uint32(id) - w.base
			if uint32(id) < w.base || uint64(off>>6) >= uint64(len(w.dense)) || w.dense[off>>6]>>(off&63)&1 == 0 {
				continue
			}
			i := w.ordinal + k
			w.ids, w.ordinal = w.ids[k+1:], i+1
			err := p.load(w.source, i)
			return err == nil, err
		}
		w.ordinal += len(w.ids)
		if w.ids = nil; w.ordinal == s.file.reader.Len() {
			s.loaded = false
			w.source, w.ordinal = w.source+1, 0
			continue
		}
		if w.page, err = s.file.reader.IDs(w.ordinal, w.page[:0]); err != nil {
			return false, err
		}
		w.ids = w.page
	}
	return false, nil
}
