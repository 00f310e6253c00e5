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
