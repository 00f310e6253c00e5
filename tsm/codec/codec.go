package codec

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"tsdbd/internal/binio"
)

// MaxValues is the largest number of values in a block. A block holds at
// least one.
const MaxValues = 8192

// The first byte of a block. Each type uses some of them; the numbers are
// part of the format.
const (
	encRaw     = 0  // values as they are
	encConst   = 1  // one value
	encLinear  = 2  // start and step
	encRuns    = 3  // values and their run lengths, each a block
	encPacked  = 4  // bit-packed frame with exceptions
	encSimple8 = 5  // Simple-8b words
	encXOR     = 6  // Gorilla value stream
	encDecimal = 7  // ALP: decimals as integers
	encSplit   = 8  // ALP-RD: dictionary of high bits, packed low bits
	encBits    = 9  // one bit per boolean
	encDict    = 10 // ids and the distinct strings or doubles
	encSnappy  = 11 // strings compressed with Snappy
	encRice    = 12 // frame with offsets of as many bits as each needs
)

func corrupt(reason string) error {
	return &binio.CorruptError{Offset: -1, Reason: "block: " + reason}
}

// checkBlock is the first step of every decoder.
func checkBlock(block []byte, n int) error {
	if n < 1 || n > MaxValues {
		return corrupt(fmt.Sprintf("%d values", n))
	}
	if len(block) == 0 {
		return corrupt("empty")
	}
	return nil
}

// checkCount is the first step of every encoder. Another number of values is a
// bug of the caller.
func checkCount(n int) {
	if n < 1 || n > MaxValues {
		panic(fmt.Sprintf("codec: a block holds 1 to %d values, not %d", MaxValues, n))
	}
}

// grow extends dst by n unspecified values and returns it with the new part.
func grow[T any](dst []T, n int) (all, fresh []T) {
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	return dst, dst[at:]
}

// words views a slice of 8-byte values as the words of their bits.
func words[T int64 | uint64 | float64](v []T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

// wordScratch holds the arrays one encoding or decoding step works in. Steps
// that nest take one each.
type wordScratch struct {
	a, b [MaxValues]uint64
}

var wordPool = sync.Pool{New: func() any { return new(wordScratch) }}

// longScratch has room for the batch decoder of Simple-8b, which writes up to
// 240 values past the last.
type longScratch [MaxValues + 240]uint64

var longPool = sync.Pool{New: func() any { return new(longScratch) }}

// floats views words as the doubles whose bits they are.
func floats(v []uint64) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}
