// Package dictionary holds the values of a tag key in a file, each with the set of
// series that have it.
//
// A Writer takes the values in ascending order and makes pages of them; what
// Finish writes is read back as a Tag. A Cursor walks the values of a Tag, Find
// looks one up. A Posting is the set of one value, packed; a Collector unites
// postings. docs/formats/tsi.md has the bytes.
//
// Damage is a *binio.CorruptError. A Tag may be used by many goroutines, the other
// types by one.
package dictionary
