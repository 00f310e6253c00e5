package codec

import (
	"encoding/binary"
	"slices"
	"sync"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/golang/snappy"

	"tsdbd/internal/binio"
)

// String blocks:
//
//	1 | bytes                                    all values are this one
//	0 | size | lengths (integer block) | bytes   one value after the other
//	11 | size | lengths | Snappy of the bytes
//	10 | distinct | size | ids (integer block) | string block of the distinct values
//
// size is that of the integer block. The dictionary is written in order of
// first appearance, and only if at most one value in four is new.
const (
	minDictShare = 4
	// snappyRatio bounds what Snappy can expand to: 64 bytes out of 3.
	snappyRatio = 22
	// keepBytes is the largest buffer that a scratch keeps.
	keepBytes = 1 << 20
)

// stringScratch is what the string encoder works in.
type stringScratch struct {
	ids, lengths [MaxValues]uint64
	distinct     []string
	table        [4 * MaxValues / minDictShare]uint16 // place in distinct +1, by hash
	used         []uint32                             // slots of table to clear
	bytes        []byte
}

var stringPool = sync.Pool{New: func() any { return new(stringScratch) }}

// AppendStrings appends the block of v, 1 to MaxValues values.
func AppendStrings(dst []byte, v []string) []byte {
	checkCount(len(v))
	if allEqual(v) {
		return append(append(dst, encConst), v[0]...)
	}
	s := stringPool.Get().(*stringScratch)
	defer stringPool.Put(s)
	distinct := s.findDistinct(v)
	if distinct == nil {
		return s.appendPlain(dst, v)
	}
	dst = append(dst, encDict)
	dst = binary.AppendUvarint(dst, uint64(len(distinct)))
	at := len(dst)
	dst = appendWords(dst, s.ids[:len(v)], smallest)
	dst = insertUvarint(dst, at, uint64(len(dst)-at))
	dst = s.appendPlain(dst, distinct)
	clear(s.distinct)
	return dst
}

// findDistinct fills s.ids and returns the distinct values of v, or nil if
// there are too many.
func (s *stringScratch) findDistinct(v []string) []string {
	most := len(v) / minDictShare
	distinct := s.distinct[:0]
	mask := uint64(len(s.table) - 1)
	defer func() {
		for _, h := range s.used {
			s.table[h] = 0
		}
		s.used, s.distinct = s.used[:0], distinct
	}()
	last := ^uint64(0)
	for i, x := range v {
		if last != ^uint64(0) && x == distinct[last] {
			s.ids[i] = last
			continue
		}
		h := xxhash.Sum64String(x) & mask
		for ; ; h = (h + 1) & mask {
			k := s.table[h]
			if k == 0 {
				if len(distinct) == most {
					clear(distinct)
					return nil
				}
				distinct = append(distinct, x)
				s.table[h] = uint16(len(distinct))
				s.used = append(s.used, uint32(h))
				last = uint64(len(distinct) - 1)
				break
			}
			if distinct[k-1] == x {
				last = uint64(k - 1)
				break
			}
		}
		s.ids[i] = last
	}
	return distinct
}

// appendPlain appends v without a dictionary.
func (s *stringScratch) appendPlain(dst []byte, v []string) []byte {
	if len(v) == 1 {
		return append(append(dst, encConst), v[0]...)
	}
	b := s.bytes[:0]
	for i, x := range v {
		s.lengths[i] = uint64(len(x))
		b = append(b, x...)
	}
	if cap(b) <= keepBytes {
		s.bytes = b
	}
	at := len(dst)
	dst = append(dst, encSnappy)
	dst = appendWords(dst, s.lengths[:len(v)], smallest)
	dst = insertUvarint(dst, at+1, uint64(len(dst)-at-1))
	// Snappy refuses what does not fit in 32 bits.
	if most := snappy.MaxEncodedLen(len(b)); most > 0 {
		dst = slices.Grow(dst, most)
		if z := snappy.Encode(dst[len(dst):cap(dst)], b); len(z) < len(b) {
			return dst[:len(dst)+len(z)] // Encode wrote behind dst
		}
	}
	dst[at] = encRaw
	return append(dst, b...)
}

// DecodeStrings appends the n values of block to dst. The values share one
// allocation of their own, so they outlive block. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeStrings(dst []string, block []byte, n int) ([]string, error) {
	return decode(dst, block, n, decodeStrings)
}

func decodeStrings(dst []string, block []byte) error {
	if f := formOf(block); f.strings != nil {
		return f.strings(dst, block)
	}
	return corrupt("string encoding")
}

func decodeStringDict(dst []string, block []byte) error {
	distinct, ids, dict, err := readPair(block)
	if err != nil {
		return err
	}
	if distinct < 1 || distinct > uint64(len(dst)) || len(dict) == 0 || dict[0] == encDict {
		return corrupt("dictionary size")
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	if err := decodeWords(s.a[:len(dst)], ids); err != nil {
		return err
	}
	values := make([]string, distinct)
	if err := decodeStrings(values, dict); err != nil {
		return err
	}
	for i, id := range s.a[:len(dst)] {
		if id >= distinct {
			return corrupt("dictionary id")
		}
		dst[i] = values[id]
	}
	return nil
}

func decodeStringConst(dst []string, block []byte) error {
	x := string(block[1:])
	for i := range dst {
		dst[i] = x
	}
	return nil
}

// readTexts takes apart a raw or snappy block: the block of the lengths, the text as
// it is written, and the bytes that it takes without compression.
func readTexts(block []byte) (lengths, text []byte, size int, err error) {
	d := binio.NewDecoder(block[1:])
	lengths = d.Bytes(d.Count(1))
	text = d.Bytes(d.Len())
	if d.Err() != nil || block[0] == encRaw {
		return lengths, text, len(text), d.Err()
	}
	if size, err = snappy.DecodedLen(text); err != nil || size > snappyRatio*len(text) {
		return nil, nil, 0, corrupt("snappy length")
	}
	return lengths, text, size, nil
}

// TextBytes returns how many bytes DecodeStrings takes for the texts of a block,
// without decoding them.
func TextBytes(block []byte) (int, error) {
	if len(block) > 0 && block[0] == encDict {
		var err error
		if _, _, block, err = readPair(block); err != nil {
			return 0, err
		}
	}
	if len(block) == 0 {
		return 0, corrupt("empty block")
	}
	switch block[0] {
	case encConst:
		return len(block) - 1, nil
	case encRaw, encSnappy:
		_, _, size, err := readTexts(block)
		return size, err
	}
	return 0, corrupt("string encoding")
}

// decodeTexts decodes a raw or snappy block.
func decodeTexts(dst []string, block []byte) error {
	sizes, text, size, err := readTexts(block)
	if err != nil {
		return err
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	lengths := s.a[:len(dst)]
	if err := decodeWords(lengths, sizes); err != nil {
		return err
	}
	left := uint64(size)
	for _, l := range lengths {
		if l > left {
			return corrupt("string lengths")
		}
		left -= l
	}
	if left != 0 {
		return corrupt("string lengths")
	}
	var own string
	if block[0] == encRaw {
		own = string(text)
	} else {
		b, err := snappy.Decode(nil, text)
		if err != nil {
			return corrupt(err.Error())
		}
		own = unsafe.String(unsafe.SliceData(b), len(b))
	}
	for i, l := range lengths {
		dst[i], own = own[:l], own[l:]
	}
	return nil
}
