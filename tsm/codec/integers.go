package codec

// Times and integers of both types are integer blocks of the same words.

// AppendTimes appends the block of ts, 1 to MaxValues times in nanoseconds, in
// any order; ascending ones are what it makes small: regular times are linear,
// others delta or trend frames.
func AppendTimes(dst []byte, ts []int64) []byte { return AppendIntegers(dst, ts) }

// AppendIntegers appends the block of v, 1 to MaxValues values.
func AppendIntegers(dst []byte, v []int64) []byte { return AppendUnsigneds(dst, words(v)) }

// AppendUnsigneds appends the block of v, 1 to MaxValues values.
func AppendUnsigneds(dst []byte, v []uint64) []byte {
	checkCount(len(v))
	return appendWords(dst, v, families)
}

// DecodeTimes appends the n times of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeTimes(dst []int64, block []byte, n int) ([]int64, error) {
	return DecodeIntegers(dst, block, n)
}

// DecodeIntegers appends the n values of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeIntegers(dst []int64, block []byte, n int) ([]int64, error) {
	return decode(dst, block, n, func(dst []int64, block []byte) error { return decodeWords(words(dst), block) })
}

// DecodeUnsigneds appends the n values of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeUnsigneds(dst []uint64, block []byte, n int) ([]uint64, error) {
	return decode(dst, block, n, decodeWords)
}
