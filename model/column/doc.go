// Package column holds typed vectors of times and values: what the line
// protocol parser fills (Batch), what storage hands to queries (Vector, Rows),
// and how rows are sorted, merged, deduplicated and cut.
//
// A Table holds the series and layouts of one database that parsers have met;
// rows point to them. It may be used by any number of goroutines.
//
// A Builder appends points from other sources to a Batch and refuses those that
// may not be stored.
//
// A Batch owns its memory and is used by one goroutine at a time. Vectors and
// Rows are plain data; whoever hands one out says until when it is valid.
package column
