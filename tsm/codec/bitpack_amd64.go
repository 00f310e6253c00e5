package codec

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasVector says that the machine has the vector instructions which the loops
// of vector_amd64.s are made of: AVX-512 with byte permutations.
var hasVector = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ &&
	cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2

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

// unpackVector is unpack for as many values as it returns, a multiple of 8;
// the width is 1 to maxLoadWidth.
func unpackVector(dst []uint64, src []byte, w uint) int {
	groups := min(len(dst)/8, len(src)/int(w))
	if !hasVector || 8*groups < minVector {
		return 0
	}
	unpack512(unsafe.SliceData(dst), unsafe.SliceData(src), groups, w, &unpackTables[w])
	return 8 * groups
}
