// Package vector has the loops over slices of numbers that pay to be written
// with vector instructions: sums and extremes. Best chooses the Form of these loops
// and of those in tsm/codec when the program starts. All forms give the same bits.
// A loop that has no AVX2 form, as those over short runs, runs in Go there.
package vector
