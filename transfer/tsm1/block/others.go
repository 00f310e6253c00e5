package block

import (
	"unsafe"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
)

// appendBooleans decodes n booleans: their number, then a bit for each, from the
// highest bit of a byte to its lowest.
func appendBooleans(dst []bool, b []byte, n int) ([]bool, error) {
	if len(b) == 0 {
		return dst, nil
	}
	if b[0]>>4 != 1 {
		return dst, badEncoding("booleans", b[0])
	}
	count, at := binio.Uvarint(b, 1)
	if at < 0 || count != uint64(n) || count > uint64(len(b)-at)*8 {
		return dst, binio.Corruptf("", -1, "%d booleans for %d times in %d bytes", count, n, len(b))
	}
	for i := range n {
		dst = append(dst, b[at+i/8]>>(7-i%8)&1 != 0)
	}
	return dst, nil
}

// snappyRatio is more than the compression of snappy can be: 64 bytes by an element of 3.
const snappyRatio = 24

// appendStrings decodes n strings: a snappy block of their lengths and bytes.
func appendStrings(dst []string, b []byte, n int) ([]string, error) {
	if len(b) == 0 {
		return dst, nil
	}
	if b[0]>>4 != 1 {
		return dst, badEncoding("strings", b[0])
	}
	text, err := Uncompress(nil, b[1:])
	if err != nil {
		return dst, err
	}
	for at := 0; at < len(text); {
		length, next := binio.Uvarint(text, at)
		if next < 0 || length > uint64(len(text)-next) || len(dst) == n {
			return dst, binio.Corruptf("", -1, "a string of %d bytes in %d", length, len(text)-at)
		}
		at = next + int(length)
		dst = append(dst, unsafe.String(unsafe.SliceData(text[next:at]), length))
	}
	return dst, nil
}

// Uncompress decodes a snappy block. It takes no more memory than the block can need,
// whatever the length that it claims.
func Uncompress(dst, b []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(b)
	if err != nil || n > snappyRatio*len(b) {
		return nil, binio.Corruptf("", -1, "a snappy block of %d bytes that claims to be %d bytes", len(b), n)
	}
	if dst, err = snappy.Decode(dst, b); err != nil {
		return nil, binio.Corruptf("", -1, "snappy: %v", err)
	}
	return dst, nil
}
