// Package influxhttp takes everything out of a running server by its HTTP API: InfluxDB 1.x,
// 2.x by its API of 1.x, 3.x by InfluxQL, and tsdbd.
//
// Connect finds out what the Server is. Catalog asks for databases and policies. Pull.Rows
// cuts the time of each measurement into slices, by the shard groups of the server. For
// each slice it asks a chunked SELECT of all fields by all tags, writes each row as line
// protocol as it arrives, and hands the lines to transfer.Import. A slice that the server
// cannot answer is halved. A journal notes the slices that are done. Pull.Follow takes
// new rows until the writers have moved, and late ones by the counts of the source: those of
// the target say little as soon as writers write to it. Pull.Compare counts what both
// servers have.
//
// Memory does not grow with the number of series or rows: an answer is read row by row,
// and series are never listed. Numbers are never read as floats unless they are: answers
// are MessagePack, which has types, or texts that stay as they are.
//
// JSON is read here and not by encoding/json, which puts U+FFFD in the place of bytes that are
// not UTF-8, takes a string of any length into memory, and allocates for each value.
//
// A slice is noted after the target has stored its rows durably. So a Pull that is killed
// and repeated with its journal loses nothing. Rows that are written twice stay the same.
//
// A Server is safe for concurrent use, a Pull for one goroutine.
package influxhttp
