package codec

import (
	"unsafe"

	"tsdbd/internal/vector"
)

// maxNarrow is the widest offset that 4 bytes hold whatever bit of the first it
// starts at, and of which 16 add up to less than 1<<32.
const maxNarrow = 25

// narrowTables are unpackTables for 16 values in lanes of 32 bits.
var narrowTables = func() *[maxNarrow + 1]unpackTable {
	var tables [maxNarrow + 1]unpackTable
	for w := range uint(maxNarrow + 1) {
		t := &tables[w]
		for i := range uint(16) {
			for k := range uint(4) {
				t.bytes[4*i+k] = byte(i*w/8 + k)
			}
			t.shifts[i/2] |= uint64(i*w%8) << (i % 2 * 32)
		}
		t.mask, t.load = (1<<w-1)*(1<<32+1), 1<<(2*w)-1
	}
	return &tables
}()

//go:noescape
func divide512(v *uint64, groups int, scale *decimalScale)

//go:noescape
func linearFrame512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, f *frameLoop)

//go:noescape
func deltaFrame512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, f *frameLoop) uint64

//go:noescape
func deltaNarrow512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, f *frameLoop) uint64

//go:noescape
func split512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, right uint, dict *[1 << maxCodeBits]uint64)

//go:noescape
func linearFrame256(dst *uint64, fours int, f *frameLoop)

//go:noescape
func deltaFrame256(dst *uint64, fours int, f *frameLoop) uint64

//go:noescape
func divide256(v *uint64, fours int, scale *decimalScale)

//go:noescape
func split256(v *uint64, fours int, right uint, dict *[1 << maxCodeBits]uint64)

//go:noescape
func join256(dst *uint64, rests *byte, low *uint64, fours int, w, zigzag uint)

//go:noescape
func join512(dst *uint64, rests *byte, low *uint64, groups int, w, zigzag uint)

// divideVector sets v[i] to the bits of the double float64(int64(v[i]))/scale.power
// for as many values as it returns.
func divideVector(v []uint64, scale *decimalScale) int {
	switch {
	case len(v) < minVector:
		return 0
	case loops == vector.AVX512:
		divide512(unsafe.SliceData(v), len(v)/8, scale)
		return len(v) &^ 7
	case loops == vector.AVX2:
		divide256(unsafe.SliceData(v), len(v)/4, scale)
		return len(v) &^ 3
	}
	return 0
}

// frameLoop is what the loops that restore frames need in addition to the offsets.
type frameLoop struct {
	base, first, factor uint64
	scale               *decimalScale // nil: words
}

// frameVector unpacks the offsets of a frame, which are in dst if packed is nil,
// and restores as many values as it returns. With a scale they become doubles as
// divideVector makes them. x is the last value in delta mode, not divided, or f.first
// if there is none.
func frameVector(dst []uint64, packed []byte, f *frame, scale *decimalScale) (n int, x uint64) {
	loop := frameLoop{base: f.base, first: f.first, factor: f.factor, scale: scale}
	if len(dst) < minVector {
		return 0, f.first
	}
	switch {
	case loops == vector.AVX2 && packed == nil:
		return restore256(dst, f.mode, &loop)
	case loops != vector.AVX512, packed != nil && (f.width == 0 || f.width > maxLoadWidth):
		return 0, f.first
	}
	d, src, groups, t := unsafe.SliceData(dst), unsafe.SliceData(packed), len(dst)/8, &unpackTables[min(f.width, maxLoadWidth)]
	if f.mode == modeDelta {
		if packed != nil && f.width <= maxNarrow {
			loop.first = deltaNarrow512(d, src, groups/2, f.width, &narrowTables[f.width], &loop)
			if n = groups / 2 * 16; groups%2 == 0 {
				return n, loop.first
			}
			d, src, groups = &dst[n], &packed[uint(n)/8*f.width], 1
		}
		return n + 8*groups, deltaFrame512(d, src, groups, f.width, t, &loop)
	}
	linearFrame512(d, src, groups, f.width, t, &loop)
	return 8 * groups, 0
}

// restore256 is frameVector for offsets in dst.
func restore256(dst []uint64, mode byte, loop *frameLoop) (n int, x uint64) {
	fours := len(dst) / 4
	if mode == modeDelta {
		x = deltaFrame256(unsafe.SliceData(dst), fours, loop)
	} else {
		linearFrame256(unsafe.SliceData(dst), fours, loop)
	}
	if loop.scale != nil {
		divide256(unsafe.SliceData(dst), fours, loop.scale)
	}
	return 4 * fours, x
}

// splitVector unpacks codes and right parts of w bits, and puts for the code its
// entry of dict to the left of the right parts' bits, for as many values as it
// returns. Entries repeat up to the end of dict.
func splitVector(dst []uint64, packed []byte, w, right uint, dict *[1 << maxCodeBits]uint64) int {
	switch {
	case len(dst) < minVector || w > maxLoadWidth:
		return 0
	case loops == vector.AVX512:
		split512(unsafe.SliceData(dst), unsafe.SliceData(packed), len(dst)/8, w, &unpackTables[w], right, dict)
		return len(dst) &^ 7
	case loops == vector.AVX2:
		n := unpackVector(dst, packed, w)
		if n > 0 {
			split256(unsafe.SliceData(dst), n/4, right, dict)
		}
		return n
	}
	return 0
}

// joinVector is join for as many values as it returns.
func joinVector(q []uint64, rests []byte, low []uint64, w, zigzag uint) int {
	d, r, l := unsafe.SliceData(q), unsafe.SliceData(rests), unsafe.SliceData(low)
	switch {
	case len(q) < minVector:
		return 0
	case loops == vector.AVX512:
		join512(d, r, l, len(q)/8, w, zigzag)
		return len(q) &^ 7
	case loops == vector.AVX2:
		join256(d, r, l, len(q)/4, w, zigzag)
		return len(q) &^ 3
	}
	return 0
}
