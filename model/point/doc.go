// Package point holds what a parser makes of a request: a Batch of points, whose
// rows name a Series and a Layout.
//
// A Table holds the series and layouts of one database that parsers have found so far;
// rows point to them. Any number of goroutines may use it.
//
// A Builder appends points from other sources to a Batch and refuses those that
// may not be stored.
//
// A Batch owns its memory and is used by one goroutine at a time.
package point
