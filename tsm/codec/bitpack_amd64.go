package codec

import (
	"unsafe"

	"tsdbd/internal/vector"
)

// unpackTable says how 8 values of one width are taken out of their bytes.
type unpackTable struct {
	bytes  [64]byte  // the 8 bytes from each value's first on
	shifts [8]uint64 // bits of the value before in the first byte
	mask   uint64    // bits of a value
	load   uint64    // a bit for every byte of the group
}

var unpackTables = func() *[maxLoadWidth + 1]unpackTable {
	var tables [maxLoadWidth + 1]unpackTable
	for w := range uint(maxLoadWidth + 1) {
		t := &tables[w]
		for i := range uint(8) {
			for k := range uint(8) {
				t.bytes[8*i+k] = byte(i*w/8 + k)
			}
			t.shifts[i] = uint64(i * w % 8)
		}
		t.mask, t.load = 1<<w-1, 1<<w-1
	}
	return &tables
}()

//go:noescape
func unpack512(dst *uint64, src *byte, groups int, w uint, t *unpackTable)

// pairTables are unpackTables for values in pairs: the bytes count from the first one
// of a pair, and load has no meaning.
var pairTables = func() *[maxLoadWidth + 1]unpackTable {
	tables := *unpackTables
	for w := range tables {
		t := &tables[w].bytes
		for pair := 0; pair < len(t); pair += 16 {
			first := t[pair]
			for k := range 16 {
				t[pair+k] -= first
			}
		}
	}
	return &tables
}()

//go:noescape
func unpack256(dst *uint64, src *byte, groups int, w uint, t *unpackTable)

// unpackVector is unpack for as many values as it returns, a multiple of 8;
// the width is 1 to maxLoadWidth.
func unpackVector(dst []uint64, src []byte, w uint) int {
	groups := min(len(dst)/8, len(src)/int(w))
	switch d, s := unsafe.SliceData(dst), unsafe.SliceData(src); {
	case 8*groups < minVector:
		return 0
	case loops == vector.AVX512:
		unpack512(d, s, groups, w, &unpackTables[w])
	case loops == vector.AVX2:
		// The last pair of a group is read as 16 bytes.
		if groups = min(groups, (len(src)-16-int(w)*6/8+int(w))/int(w)); groups <= 0 {
			return 0
		}
		unpack256(d, s, groups, w, &pairTables[w])
	default:
		return 0
	}
	return 8 * groups
}
