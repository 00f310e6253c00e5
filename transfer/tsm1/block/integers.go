package block

import (
	"encoding/binary"

	"github.com/jwilder/encoding/simple8b"

	"tsdbd/internal/binio"
)

// The encodings of times and integers, in the upper four bits of the first byte.
const (
	raw     = 0 // 8 bytes each
	packed  = 1 // the first value in 8 bytes, then words of Simple-8b
	repeats = 2 // the first value in 8 bytes, a difference, and how often it follows
)

func badEncoding(what string, b byte) error {
	return binio.Corruptf("", -1, "unknown encoding %d of %s", b>>4, what)
}

func short(what string, n int) error {
	return binio.Corruptf("", -1, "%s in %d bytes", what, n)
}

func tooMany(what string) error {
	return binio.Corruptf("", -1, "more than %d %s", MaxRows, what)
}

// appendIntegers decodes n integers, each of which is the zigzag difference to the one
// before. Unsigned ones are written as if they were signed.
func appendIntegers[T int64 | uint64](d *Decoder, dst []T, b []byte, n int) ([]T, error) {
	if len(b) == 0 {
		return dst, nil
	}
	encoding, b := b[0]>>4, b[1:]
	if encoding > repeats {
		return dst, badEncoding("integers", encoding<<4)
	}
	if len(b) < 8 {
		return dst, short("integers", len(b))
	}
	v := binio.UnZigZag(binary.BigEndian.Uint64(b))
	dst, b = append(dst, T(v)), b[8:]
	switch encoding {
	case raw:
		for ; len(b) >= 8; b = b[8:] {
			v += binio.UnZigZag(binary.BigEndian.Uint64(b))
			dst = append(dst, T(v))
		}
		if len(b) > 0 {
			return dst, short("integers", len(b))
		}
	case packed:
		for ; len(b) >= 8; b = b[8:] {
			k, err := simple8b.Decode(&d.words, binary.BigEndian.Uint64(b))
			if err != nil || len(dst)+k > n {
				return dst, binio.Corruptf("", -1, "more integers than times, or an unknown selector")
			}
			for _, u := range d.words[:k] {
				v += binio.UnZigZag(u)
				dst = append(dst, T(v))
			}
		}
		if len(b) > 0 {
			return dst, short("integers", len(b))
		}
	case repeats:
		difference, at := binio.Uvarint(b, 0)
		if at < 0 {
			return dst, short("a difference of integers", len(b))
		}
		count, at := binio.Uvarint(b, at)
		if at < 0 || count != uint64(n-1) {
			return dst, binio.Corruptf("", -1, "%d repeated integers for %d times", count, n)
		}
		delta := binio.UnZigZag(difference)
		for range count {
			v += delta
			dst = append(dst, T(v))
		}
	}
	return dst, nil
}
