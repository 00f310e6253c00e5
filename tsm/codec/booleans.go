package codec

import "encoding/binary"

// A block of booleans is a constant, runs (the first value, then their lengths
// as an integer block), or one bit per value, first value lowest.

// AppendBooleans appends the block of v, 1 to MaxValues values.
func AppendBooleans(dst []byte, v []bool) []byte {
	checkCount(len(v))
	runs := 1
	for i := 1; i < len(v); i++ {
		change := 0
		if v[i] != v[i-1] {
			change = 1
		}
		runs += change
	}
	if runs == 1 {
		return append(dst, encConst, bit(v[0]))
	}
	size := 1 + packedLen(len(v), 1)
	// A run takes at least about half a byte.
	if runs/2 < size {
		at := len(dst)
		if dst = appendBoolRuns(dst, v, runs); len(dst)-at < size {
			return dst
		}
		dst = dst[:at]
	}
	dst = append(dst, encBits)
	for ; len(v) >= 8; v = v[8:] {
		w := (*[8]bool)(v)
		dst = append(dst, bit(w[0])|bit(w[1])<<1|bit(w[2])<<2|bit(w[3])<<3|
			bit(w[4])<<4|bit(w[5])<<5|bit(w[6])<<6|bit(w[7])<<7)
	}
	if len(v) > 0 {
		var b byte
		for i, x := range v {
			b |= bit(x) << i
		}
		dst = append(dst, b)
	}
	return dst
}

func bit(x bool) (b byte) {
	if x {
		b = 1
	}
	return b
}

func appendBoolRuns(dst []byte, v []bool, runs int) []byte {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	lengths := s.a[:0]
	since := 0
	for i := 1; i < len(v); i++ {
		if v[i] != v[i-1] {
			lengths = append(lengths, uint64(i-since-1))
			since = i
		}
	}
	lengths = append(lengths, uint64(len(v)-since-1))
	dst = append(dst, encRuns, bit(v[0]))
	dst = binary.AppendUvarint(dst, uint64(runs))
	return appendPlainWords(dst, lengths, smallest)
}

// DecodeBooleans appends the n values of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeBooleans(dst []bool, block []byte, n int) ([]bool, error) {
	return decode(dst, block, n, func(dst []bool, block []byte) error {
		if f := formOf(block); f.booleans != nil {
			return f.booleans(dst, block)
		}
		return corrupt("boolean encoding")
	})
}

func decodeBoolConst(dst []bool, block []byte) error {
	if len(block) != 2 || block[1] > 1 {
		return corrupt("boolean constant")
	}
	fillBools(dst, block[1] == 1)
	return nil
}

func decodeBits(dst []bool, block []byte) error {
	if len(block) != 1+packedLen(len(dst), 1) {
		return corrupt("length of bits")
	}
	for src := block[1:]; len(dst) > 0; src = src[1:] {
		b := src[0]
		if len(dst) < 8 {
			for i := range dst {
				dst[i] = b>>i&1 != 0
			}
			break
		}
		w := (*[8]bool)(dst)
		w[0], w[1], w[2], w[3] = b&1 != 0, b&2 != 0, b&4 != 0, b&8 != 0
		w[4], w[5], w[6], w[7] = b&16 != 0, b&32 != 0, b&64 != 0, b&128 != 0
		dst = dst[8:]
	}
	return nil
}

func decodeBoolRuns(dst []bool, block []byte) error {
	if len(block) < 2 || block[1] > 1 {
		return corrupt("boolean runs")
	}
	runs, k := binary.Uvarint(block[2:])
	if k <= 0 || runs < 1 || runs > uint64(len(dst)) {
		return corrupt("number of runs")
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	lengths := s.a[:runs]
	if err := decodeLengths(lengths, block[2+k:], len(dst)); err != nil {
		return err
	}
	x := block[1] == 1
	for _, l := range lengths {
		fillBools(dst[:l], x)
		dst, x = dst[l:], !x
	}
	return nil
}

func fillBools(v []bool, x bool) {
	for i := range v {
		v[i] = x
	}
}
