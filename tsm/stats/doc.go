// Package stats writes and reads the statistics of a column of a chunk: count, minimum,
// maximum, first and last value, and the sum with its error. The bytes are described in
// docs/formats/tsm.md.
//
// Of computes statistics, Append writes a record, Record finds one among others, and Decode
// and DecodeSum read it. All are pure functions. A record that is damaged gives false, and
// numbers at worst: package tsm checks the bytes before.
package stats
