package codec

// AppendTimes appends the block of ts, 1 to MaxValues times in nanoseconds, in
// any order; ascending ones are what it makes small. Times are an integer
// block: regular times are linear, others delta or trend frames.
func AppendTimes(dst []byte, ts []int64) []byte {
	checkCount(len(ts))
	return appendWords(dst, words(ts), families)
}

// DecodeTimes appends the n times of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeTimes(dst []int64, block []byte, n int) ([]int64, error) {
	return DecodeIntegers(dst, block, n)
}

// RegularTimes returns start and step and true if time i of block, 0 <= i < n,
// is start + i*step by the block's header alone. One time, or n times the
// same, have step 0. It returns false for other blocks and for damaged ones.
func RegularTimes(block []byte, n int) (start, step int64, ok bool) {
	if checkBlock(block, n) != nil || block[0] != encConst && block[0] != encLinear {
		return 0, 0, false
	}
	a, b, err := readLinear(block)
	return int64(a), int64(b), err == nil
}
