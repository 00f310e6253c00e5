package codec

import (
	"encoding/binary"
	"math"

	"tsdbd/internal/binio"
)

// MaxValues is the largest number of values in a block.
const MaxValues = 8192

const encRaw = 0

func corrupt(reason string) error {
	return &binio.CorruptError{Offset: -1, Reason: reason}
}

func checkRaw(block []byte, n, width int) error {
	if n < 1 || n > MaxValues || len(block) != 1+n*width || block[0] != encRaw {
		return corrupt("codec: bad raw block")
	}
	return nil
}

// AppendTimes appends the block of ts, 1 to MaxValues times in any order.
func AppendTimes(dst []byte, ts []int64) []byte { return AppendIntegers(dst, ts) }

// DecodeTimes appends the n times of block to dst.
func DecodeTimes(dst []int64, block []byte, n int) ([]int64, error) {
	return DecodeIntegers(dst, block, n)
}

// RegularTimes returns start and step if the n times of block are start+i*step.
func RegularTimes(block []byte, n int) (start, step int64, ok bool) { return 0, 0, false }

// AppendFloats appends the block of v.
func AppendFloats(dst []byte, v []float64) []byte {
	dst = append(dst, encRaw)
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

// DecodeFloats appends the n values of block to dst.
func DecodeFloats(dst []float64, block []byte, n int) ([]float64, error) {
	if err := checkRaw(block, n, 8); err != nil {
		return dst, err
	}
	for i := 1; i < len(block); i += 8 {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(block[i:])))
	}
	return dst, nil
}

// AppendIntegers appends the block of v.
func AppendIntegers(dst []byte, v []int64) []byte {
	dst = append(dst, encRaw)
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(x))
	}
	return dst
}

// DecodeIntegers appends the n values of block to dst.
func DecodeIntegers(dst []int64, block []byte, n int) ([]int64, error) {
	if err := checkRaw(block, n, 8); err != nil {
		return dst, err
	}
	for i := 1; i < len(block); i += 8 {
		dst = append(dst, int64(binary.LittleEndian.Uint64(block[i:])))
	}
	return dst, nil
}

// AppendUnsigneds appends the block of v.
func AppendUnsigneds(dst []byte, v []uint64) []byte {
	dst = append(dst, encRaw)
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return dst
}

// DecodeUnsigneds appends the n values of block to dst.
func DecodeUnsigneds(dst []uint64, block []byte, n int) ([]uint64, error) {
	if err := checkRaw(block, n, 8); err != nil {
		return dst, err
	}
	for i := 1; i < len(block); i += 8 {
		dst = append(dst, binary.LittleEndian.Uint64(block[i:]))
	}
	return dst, nil
}

// AppendBooleans appends the block of v.
func AppendBooleans(dst []byte, v []bool) []byte {
	dst = append(dst, encRaw)
	for _, x := range v {
		b := byte(0)
		if x {
			b = 1
		}
		dst = append(dst, b)
	}
	return dst
}

// DecodeBooleans appends the n values of block to dst.
func DecodeBooleans(dst []bool, block []byte, n int) ([]bool, error) {
	if err := checkRaw(block, n, 1); err != nil {
		return dst, err
	}
	for _, b := range block[1:] {
		dst = append(dst, b != 0)
	}
	return dst, nil
}

// AppendStrings appends the block of v.
func AppendStrings(dst []byte, v []string) []byte {
	dst = append(dst, encRaw)
	for _, s := range v {
		dst = binio.AppendString(dst, s)
	}
	return dst
}

// DecodeStrings appends the n values of block to dst. They share one
// allocation of their own and none with block.
func DecodeStrings(dst []string, block []byte, n int) ([]string, error) {
	if n < 1 || n > MaxValues || len(block) < 1+n || block[0] != encRaw {
		return dst, corrupt("codec: bad raw block")
	}
	own := string(block[1:])
	d := binio.NewDecoder(block[1:])
	for range n {
		c := d.Count(1)
		o := d.Offset()
		d.Bytes(c)
		if d.Err() != nil {
			return dst, d.Err()
		}
		dst = append(dst, own[o:o+c])
	}
	if d.Len() != 0 {
		return dst, corrupt("codec: trailing bytes")
	}
	return dst, nil
}
