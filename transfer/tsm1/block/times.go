package block

import (
	"encoding/binary"

	"github.com/jwilder/encoding/simple8b"

	"tsdbd/internal/binio"
)

// scales are the powers of ten that the lower four bits of the first byte choose.
var scales = func() (s [16]uint64) {
	s[0] = 1
	for i := 1; i < len(s); i++ {
		s[i] = 10 * s[i-1]
	}
	return s
}()

// AppendTimes decodes the times of a block. They are ascending and unique.
func (d *Decoder) AppendTimes(dst []int64, b []byte) ([]int64, error) {
	first := len(dst)
	dst, err := d.appendTimes(dst, b)
	if err != nil {
		return dst, err
	}
	times := dst[first:]
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			return dst, binio.Corruptf("", -1, "times that do not ascend")
		}
	}
	return dst, nil
}

func (d *Decoder) appendTimes(dst []int64, b []byte) ([]int64, error) {
	if len(b) < 9 {
		return dst, short("times", len(b))
	}
	scale := scales[b[0]&15]
	t := binary.BigEndian.Uint64(b[1:])
	rest := b[9:]
	switch b[0] >> 4 {
	case raw:
		if len(rest)/8 >= MaxRows {
			return dst, tooMany("times")
		}
		dst = append(dst, int64(t))
		for ; len(rest) >= 8; rest = rest[8:] {
			t += binary.BigEndian.Uint64(rest)
			dst = append(dst, int64(t))
		}
		if len(rest) > 0 {
			return dst, short("times", len(rest))
		}
	case packed:
		first := len(dst)
		dst = append(dst, int64(t))
		for ; len(rest) >= 8; rest = rest[8:] {
			k, err := simple8b.Decode(&d.words, binary.BigEndian.Uint64(rest))
			if err != nil || len(dst)-first+k > MaxRows {
				return dst, tooMany("times")
			}
			for _, u := range d.words[:k] {
				t += u * scale
				dst = append(dst, int64(t))
			}
		}
		if len(rest) > 0 {
			return dst, short("times", len(rest))
		}
	case repeats:
		delta, count, err := repeated(rest)
		if err != nil {
			return dst, err
		}
		for range count {
			dst = append(dst, int64(t))
			t += delta * scale
		}
	default:
		return dst, badEncoding("times", b[0])
	}
	return dst, nil
}

// repeated reads the difference of times and their number.
func repeated(b []byte) (delta uint64, count int, err error) {
	d, at := binio.Uvarint(b, 0)
	if at < 0 {
		return 0, 0, short("a difference of times", len(b))
	}
	n, at := binio.Uvarint(b, at)
	if at < 0 || n > MaxRows {
		return 0, 0, tooMany("times")
	}
	return d, int(n), nil
}

// countTimes returns the number of times without decoding them.
func countTimes(b []byte) (int, error) {
	if len(b) < 9 {
		return 0, short("times", len(b))
	}
	switch b[0] >> 4 {
	case raw:
		return (len(b) - 1) / 8, nil
	case packed:
		n, err := simple8b.CountBytes(b[9 : len(b)-(len(b)-9)%8])
		return n + 1, err
	case repeats:
		_, n, err := repeated(b[9:])
		return n, err
	}
	return 0, badEncoding("times", b[0])
}
