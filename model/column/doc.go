// Package column holds typed vectors of times and values: what storage hands to
// queries (Vector, Rows), and how rows are sorted, merged, deduplicated and cut.
//
// Vectors and Rows are plain data. The function that returns one says how long it is
// valid.
package column
