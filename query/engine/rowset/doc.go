// Package rowset holds tables of rows of one group and merges them by time. What
// decides between rows of equal time is Ties: the tag sets, or the order in which
// the heap of InfluxDB leaves the series.
//
// A Set belongs to one goroutine. Merging asks a stopper for the end of the
// statement.
package rowset
