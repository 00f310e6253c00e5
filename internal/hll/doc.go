// Package hll estimates how many distinct values there are, from their hashes:
// HyperLogLog++ with 2^16 registers. A Sketch of few values is a list of them at
// a precision of 25 bits, and its estimate all but exact; one of many is the
// registers. The same values give the same text, in whatever order they come.
//
// The package hashes nothing. A Sketch belongs to one caller
// at a time.
package hll
