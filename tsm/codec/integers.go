package codec

// AppendIntegers appends the block of v, 1 to MaxValues values.
func AppendIntegers(dst []byte, v []int64) []byte {
	checkCount(len(v))
	return appendWords(dst, words(v), families)
}

// DecodeIntegers appends the n values of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeIntegers(dst []int64, block []byte, n int) ([]int64, error) {
	if err := checkBlock(block, n); err != nil {
		return dst, err
	}
	all, fresh := grow(dst, n)
	if err := decodeWords(words(fresh), block); err != nil {
		return dst, err
	}
	return all, nil
}

// AppendUnsigneds appends the block of v, 1 to MaxValues values.
func AppendUnsigneds(dst []byte, v []uint64) []byte {
	checkCount(len(v))
	return appendWords(dst, v, families)
}

// DecodeUnsigneds appends the n values of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeUnsigneds(dst []uint64, block []byte, n int) ([]uint64, error) {
	if err := checkBlock(block, n); err != nil {
		return dst, err
	}
	all, fresh := grow(dst, n)
	if err := decodeWords(fresh, block); err != nil {
		return dst, err
	}
	return all, nil
}
