// Package codec turns columns of times and values into self-describing blocks
// and back. docs/formats/codecs.md draws every byte.
//
// AppendTimes, AppendFloats, AppendIntegers, AppendUnsigneds, AppendBooleans
// and AppendStrings choose the form of a block of 1 to MaxValues values from a
// few statistics and a sample. AppendDense finds a smaller form for data at
// rest. choice.go has the rules. The Decode functions read the form that the
// first byte names; forms.go has the table of all forms. Times, integers of both types, decimal floats, run lengths,
// dictionary ids and string lengths go through one core, appendWords and
// decodeWords: linear, runs, Simple-8b, or a frame of bit-packed offsets with
// exceptions (frame.go, widths.go, bitpack.go). Floats add ALP, ALP-RD, quotients and the
// Gorilla stream.
//
// On amd64 the loops over packed values, sums, decimals, and Rice codes are in
// assembly (vector_amd64.s), with AVX-512 or AVX2. vector.Best chooses the form when
// the program starts. The loops in Go do the rest of a block, and all of it elsewhere.
// All forms give the same bits for any block, sound or not.
//
// Invariants: decoding gives back every bit that was encoded; the same values
// give the same block on every machine; a block of numbers is never more than
// one byte longer than 8 bytes a value, or 11 bytes for one value. A decoder reads
// nothing outside its block, takes all of it, allocates no more than the values
// asked for and a small multiple of the block, never panics, and answers damage
// with a *binio.CorruptError.
//
// The package knows nothing of files, checksums or time ranges: the caller
// keeps the count of a block, checks its CRC first, and adds path and offset to
// errors. Encoding no value or more than MaxValues is a bug of the caller and
// panics. All functions may be called concurrently; scratch space is pooled.
package codec
