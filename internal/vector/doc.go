// Package vector has the loops over slices of numbers that pay to be written
// with vector instructions: sums and extremes. On amd64 they are chosen when the
// program starts: AVX-512, or for sums of floats at least AVX; the loops in Go give
// the same bits, and do all of the work elsewhere.
package vector
