package column

const stringLengthBits = 24

// MaxStringLength is the longest string value in bytes that a batch, the log
// or a file can hold. The write path refuses longer ones with an error.
const MaxStringLength = 1 << 20

// StringWord packs the place of a string value: offset<<24 | length.
func StringWord(offset, length int) uint64 {
	return uint64(offset)<<stringLengthBits | uint64(length)
}

// StringAt returns the bytes that word points to.
func StringAt(word uint64, strings []byte) []byte {
	o := word >> stringLengthBits
	return strings[o : o+word&(1<<stringLengthBits-1)]
}
