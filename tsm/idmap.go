package tsm

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// The id section maps series ids to ordinals. Ids are cut into buckets by
// their high bits; a directory of u32 has the first record of each bucket.
// A record is low bits of the id << ordinal bits | ordinal, in as many bytes
// as the largest needs, sorted. A lookup touches one directory entry and one
// bucket: two cache misses.

// idBucketRecords is the wanted number of records of a bucket: about one
// cache line of them.
const idBucketRecords = 16

// ordinalBits returns the bits of an ordinal among n series.
func ordinalBits(n int) uint { return uint(bits.Len64(uint64(max(n, 1) - 1))) }

// idLayout chooses the shape of the section for n sorted pairs.
func idLayout(pairs []uint64) (base uint32, shift, width uint8, buckets int) {
	n := len(pairs)
	if n == 0 {
		return 0, 0, 1, 0
	}
	base = uint32(pairs[0] >> 32)
	span := pairs[n-1]>>32 - uint64(base)
	for span>>shift > uint64(n/idBucketRecords) {
		shift++
	}
	w := (uint(shift) + ordinalBits(n) + 7) / 8
	return base, shift, uint8(max(w, 1)), int(span>>shift) + 1
}

// sortIDs orders pairs of id<<32 | ordinal and reports whether ids are unique.
func sortIDs(pairs []uint64) bool {
	if !slices.IsSorted(pairs) {
		slices.Sort(pairs)
	}
	for i := 1; i < len(pairs); i++ {
		if pairs[i]>>32 == pairs[i-1]>>32 {
			return false
		}
	}
	return true
}

// appendIDRecord appends the record of a pair.
func appendIDRecord(dst []byte, pair uint64, base uint32, shift, width uint8, ordBits uint) []byte {
	low := (pair>>32 - uint64(base)) & (1<<shift - 1)
	return appendLane(dst, low<<ordBits|pair&(1<<32-1), int(width))
}

// Find returns the ordinal of the series with an id, and whether the file has
// it. An error is damage.
func (r *Reader) Find(id model.SeriesID) (i int, ok bool, err error) {
	f := &r.foot
	key := uint64(id) - uint64(f.idBase)
	bucket := key >> f.idShift
	if uint32(id) < f.idBase || bucket >= r.idBuckets {
		return 0, false, nil
	}
	at := f.sec.idDir + bucket*4
	if err := r.check(at, 8); err != nil {
		return 0, false, err
	}
	data, base := r.bytes, r.base
	lo, hi := binary.LittleEndian.Uint32(data[at-base:]), binary.LittleEndian.Uint32(data[at-base+4:])
	if lo > hi || uint64(hi) > uint64(f.info.Series) {
		return 0, false, binio.Corruptf(r.Path(), int64(at), "tsm: bad id directory")
	}
	if lo == hi {
		return 0, false, nil
	}
	width := uint64(f.idWidth)
	first := f.sec.idRecords + uint64(lo)*width
	if err := r.check(first, uint64(hi-lo)*width); err != nil {
		return 0, false, err
	}
	// The footer and its trailer follow the section, so that 8 bytes can be
	// read at every record.
	want := key & (1<<f.idShift - 1)
	mask := ^uint64(0) >> (64 - 8*width)
	// Evenly spread ids are near their share of the bucket, dense ones at it.
	n := int(hi - lo)
	records := data[first-base:]
	record := func(i int) uint64 {
		return binary.LittleEndian.Uint64(records[uint64(i)*width:]) & mask
	}
	l, h := 0, n
	if n <= 64 {
		l = min(int(want*uint64(n)>>f.idShift), n-1)
		w := record(l)
		for ; w>>r.ordBits < want && l < n-1; w = record(l) {
			l++
		}
		for ; w>>r.ordBits > want && l > 0; w = record(l) {
			l--
		}
		if w>>r.ordBits != want {
			return 0, false, nil
		}
		return r.ordinal(w, first)
	}
	for l < h {
		m := int(uint(l+h) >> 1)
		if record(m)>>r.ordBits < want {
			l = m + 1
		} else {
			h = m
		}
	}
	if l == n {
		return 0, false, nil
	}
	w := record(l)
	if w>>r.ordBits != want {
		return 0, false, nil
	}
	return r.ordinal(w, first)
}

func (r *Reader) ordinal(record, at uint64) (int, bool, error) {
	o := int(record & (1<<r.ordBits - 1))
	if o >= r.foot.info.Series {
		return 0, false, binio.Corruptf(r.Path(), int64(at), "tsm: bad id record")
	}
	return o, true, nil
}
