package codec

import (
	"encoding/binary"

	"tsdbd/internal/binio"
)

// A float dictionary is for doubles that are no decimals but come back again:
//
//	10 | distinct | size | ids (integer block) | distinct x 8 bytes
//
// The values are in order of first appearance.
const (
	// maxFloatDict fits the codes, less one, in the bytes of a splitTable.
	maxFloatDict = 255
	// floatDictSample and floatDictFew: a dictionary is tried if among so
	// many values at most so few are distinct.
	floatDictSample = 32
	floatDictFew    = 16
)

// fewDistinct reports whether a sample of w holds few distinct values.
func fewDistinct(w []uint64) bool {
	if len(w) < floatDictSample {
		return false
	}
	var seen [floatDictFew]uint64
	k := 0
next:
	for i := range floatDictSample {
		x := w[i*len(w)/floatDictSample]
		for _, y := range seen[:k] {
			if x == y {
				continue next
			}
		}
		if k == len(seen) {
			return false
		}
		seen[k] = x
		k++
	}
	return true
}

// appendFloatDict appends the dictionary block of w, or returns false if there
// are too many distinct values.
func appendFloatDict(dst []byte, w []uint64) ([]byte, bool) {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	table := splitPool.Get().(*splitTable)
	defer splitPool.Put(table)
	most := min(len(w)/8, maxFloatDict)
	ids, distinct := s.a[:len(w)], s.b[:0]
	var slots [maxFloatDict]uint16
	defer func() {
		for _, h := range slots[:len(distinct)] {
			table[h] = 0
		}
	}()
	for i, x := range w {
		h := uint16(x * 0x9E3779B97F4A7C15 >> 48)
		for table[h] != 0 && distinct[table[h]-1] != x {
			h++ // wraps
		}
		if table[h] == 0 {
			if len(distinct) == most {
				return dst, false
			}
			slots[len(distinct)] = h
			distinct = append(distinct, x)
			table[h] = byte(len(distinct))
		}
		ids[i] = uint64(table[h] - 1)
	}
	dst = append(dst, encDict)
	dst = binary.AppendUvarint(dst, uint64(len(distinct)))
	at := len(dst)
	dst = appendPlainWords(dst, ids, smallest)
	dst = insertUvarint(dst, at, uint64(len(dst)-at))
	for _, x := range distinct {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return dst, true
}

func decodeFloatDict(dst []uint64, block []byte) error {
	d := binio.NewDecoder(block[1:])
	distinct := d.Uvarint()
	ids := d.Bytes(d.Count(1))
	if d.Err() != nil {
		return d.Err()
	}
	if distinct < 1 || distinct > maxFloatDict || uint64(d.Len()) != 8*distinct {
		return corrupt("dictionary size")
	}
	values := d.Bytes(d.Len())
	if err := decodePlainWords(dst, ids); err != nil {
		return err
	}
	var dict [maxFloatDict + 1]uint64
	for i := range distinct {
		dict[i] = binary.LittleEndian.Uint64(values[8*i:])
	}
	for i, id := range dst {
		if id >= distinct {
			return corrupt("dictionary id")
		}
		dst[i] = dict[uint8(id)]
	}
	return nil
}
