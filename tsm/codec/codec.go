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

// The first byte of a block: its form. The numbers are part of the format.
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

	encQuotient = 13 // doubles as quotients of integers, and corrections
)

// form is a way to write a block. It has a decoder for each type that uses it, which
// fills dst from a block that begins with the number of the form.
type form struct {
	name     string
	words    func(dst []uint64, block []byte) error // times, integers, unsigned values
	floats   func(dst []uint64, block []byte) error // the bits of doubles
	booleans func(dst []bool, block []byte) error
	strings  func(dst []string, block []byte) error
	frame    bool // the second byte has the mode of a frame
}

// forms has all forms. CONTRIBUTING.md says how to add one.
var forms [encQuotient + 1]form

var unknownForm = form{name: "unknown"}

// formOf returns the form of a block.
func formOf(block []byte) *form {
	if len(block) == 0 || int(block[0]) >= len(forms) {
		return &unknownForm
	}
	return &forms[block[0]]
}

// decodeWords decodes an integer block of len(dst) values into dst.
func decodeWords(dst []uint64, block []byte) error {
	if f := formOf(block); f.words != nil {
		return f.words(dst, block)
	}
	return corrupt("integer encoding")
}

// decodeFloats decodes a block of len(dst) doubles into dst as bits.
func decodeFloats(dst []uint64, block []byte) error {
	if f := formOf(block); f.floats != nil {
		return f.floats(dst, block)
	}
	return corrupt("float encoding")
}

// readPair takes apart a block that holds a count and two blocks, the first after
// its size.
func readPair(block []byte) (count uint64, first, second []byte, err error) {
	d := binio.NewDecoder(block[1:])
	count = d.Uvarint()
	first = d.Bytes(d.Count(1))
	second = d.Bytes(d.Len())
	return count, first, second, d.Err()
}

func corrupt(reason string) error {
	return &binio.CorruptError{Offset: -1, Reason: "block: " + reason}
}

// checkBlock is the first step of every Decode function.
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

// decode appends n values to dst, into which f decodes block. After an error dst is
// as it was, and nothing of the block is held.
func decode[T any](dst []T, block []byte, n int, f func(dst []T, block []byte) error) ([]T, error) {
	if err := checkBlock(block, n); err != nil {
		return dst, err
	}
	at := len(dst)
	all := slices.Grow(dst, n)[:at+n]
	if err := f(all[at:], block); err != nil {
		clear(all[at:])
		return dst, err
	}
	return all, nil
}

// words views a slice of 8-byte values as the words of their bits.
func words[T int64 | uint64 | float64](v []T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

// floats views words as the doubles whose bits they are.
func floats(v []uint64) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
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
