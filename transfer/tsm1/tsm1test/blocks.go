// Package tsm1test writes files of InfluxDB for tests: blocks, TSM files, tombstones, and
// segments of the WAL. clients/tsm1judge compares the reader with files that InfluxDB's
// own engine has written; these files are for tests that must not need it, and for damage
// that it would not write.
package tsm1test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/golang/snappy"
	"github.com/jwilder/encoding/simple8b"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
)

// kinds are the types of values by their numbers in blocks.
var kinds = map[model.FieldType]byte{model.Float: 0, model.Integer: 1, model.Boolean: 2, model.String: 3, model.Unsigned: 4}

// maxPacked is the first number that Simple-8b has no room for.
const maxPacked = 1 << 60

// Block returns a block of rows, with its checksum.
func Block(times []int64, v *column.Vector) []byte {
	ts := Times(times)
	b := append(make([]byte, 4), kinds[v.Type])
	b = binary.AppendUvarint(b, uint64(len(ts)))
	return Sum(append(append(b, ts...), values(v)...))
}

// Sum writes the checksum of a block to its first four bytes.
func Sum(b []byte) []byte {
	binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

// Times encodes times as InfluxDB does.
func Times(times []int64) []byte {
	deltas := make([]uint64, len(times))
	scale, exponent := uint64(1e12), byte(12)
	equal, most := true, uint64(0)
	for i := range times {
		if i == 0 {
			continue
		}
		deltas[i] = uint64(times[i] - times[i-1])
		most = max(most, deltas[i])
		equal = equal && deltas[i] == deltas[1]
		for deltas[i]%scale != 0 {
			scale, exponent = scale/10, exponent-1
		}
	}
	first := binary.BigEndian.AppendUint64([]byte{0}, uint64(times[0]))
	if len(times) > 1 && equal {
		first[0] = 2<<4 | exponent
		return binary.AppendUvarint(binary.AppendUvarint(first, deltas[1]/scale), uint64(len(times)))
	}
	if most >= maxPacked {
		for _, d := range deltas[1:] {
			first = binary.BigEndian.AppendUint64(first, d)
		}
		return first
	}
	first[0] = 1<<4 | exponent
	for i := range deltas {
		deltas[i] /= scale
	}
	return pack(first, deltas[1:])
}

// pack appends words of Simple-8b. It destroys list.
func pack(b []byte, list []uint64) []byte {
	words, err := simple8b.EncodeAll(list)
	if err != nil {
		panic(err)
	}
	for _, w := range words {
		b = binary.BigEndian.AppendUint64(b, w)
	}
	return b
}

func values(v *column.Vector) []byte {
	switch v.Type {
	case model.Float:
		return floats(v.Floats)
	case model.Integer:
		return integers(v.Ints)
	case model.Unsigned:
		signed := make([]int64, len(v.Uints))
		for i, u := range v.Uints {
			signed[i] = int64(u)
		}
		return integers(signed)
	case model.Boolean:
		b := binary.AppendUvarint([]byte{1 << 4}, uint64(len(v.Bools)))
		for i, set := range v.Bools {
			if i%8 == 0 {
				b = append(b, 0)
			}
			if set {
				b[len(b)-1] |= 1 << (7 - i%8)
			}
		}
		return b
	}
	var text []byte
	for _, s := range v.Strings {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	return append([]byte{1 << 4}, snappy.Encode(nil, text)...)
}

func integers(list []int64) []byte {
	deltas := make([]uint64, len(list))
	previous, equal, most := int64(0), true, uint64(0)
	for i, v := range list {
		deltas[i] = binio.ZigZag(v - previous)
		previous = v
		if i > 0 {
			most = max(most, deltas[i])
			equal = equal && deltas[i] == deltas[1]
		}
	}
	b := binary.BigEndian.AppendUint64([]byte{0}, deltas[0])
	switch {
	case len(list) > 2 && equal:
		b[0] = 2 << 4
		return binary.AppendUvarint(binary.AppendUvarint(b, deltas[1]), uint64(len(list)-1))
	case most >= maxPacked:
		for _, d := range deltas[1:] {
			b = binary.BigEndian.AppendUint64(b, d)
		}
		return b
	}
	b[0] = 1 << 4
	return pack(b, deltas[1:])
}

// bitWriter appends bits, the highest first.
type bitWriter struct {
	b    []byte
	free int // bits of the last byte
}

func (w *bitWriter) write(v uint64, n int) {
	for ; n > 0; n-- {
		if w.free == 0 {
			w.b, w.free = append(w.b, 0), 8
		}
		w.free--
		w.b[len(w.b)-1] |= byte(v>>(n-1)&1) << w.free
	}
}

func floats(list []float64) []byte {
	w := bitWriter{b: []byte{1 << 4}}
	const none = 99
	previous, leading, trailing := uint64(0), none, 0
	for i, v := range append(list[:len(list):len(list)], math.NaN()) {
		word := math.Float64bits(v)
		x := word ^ previous
		previous = word
		switch l, t := bits.LeadingZeros64(x)&31, bits.TrailingZeros64(x); {
		case i == 0:
			w.write(word, 64)
		case x == 0:
			w.write(0, 1)
		case leading != none && l >= leading && t >= trailing:
			w.write(0b10, 2)
			w.write(x>>trailing, 64-leading-trailing)
		default:
			leading, trailing = l, t
			w.write(0b11, 2)
			w.write(uint64(l), 5)
			w.write(uint64(64-l-t)&63, 6)
			w.write(x>>t, 64-l-t)
		}
	}
	return w.b
}
