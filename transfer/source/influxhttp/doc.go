// Package influxhttp takes everything out of a running server by its HTTP API: InfluxDB 1.x,
// 2.x by its API of 1.x, 3.x by InfluxQL, and tsdbd.
//
// Connect finds out what the Server is. Server.Catalog asks for databases and policies. A
// Source is a mover.Source of them: its parts are slices of the time of a measurement, cut by
// the shard groups of the server. For each part it asks a chunked SELECT of all fields by all
// tags, and passes on each row as line protocol as it arrives. It chooses what becomes of a part
// after an error: it waits and has the part moved again, or has it halved, because the server
// cannot answer it. Source.Follow takes new rows, in rounds that are a mover.Source each, until
// the writers have moved. It finds late rows by the counts of the server: those of the target
// say little as soon as writers write to it. Source.Compare and Source.Survey count
// what servers have, by package compare.
//
// Memory does not grow with the number of series or rows: an answer is read row by row,
// and series are never listed. Numbers are never read as floats unless they are: answers
// are MessagePack, which has types, or texts that stay as they are.
//
// JSON is read here and not by encoding/json, which puts U+FFFD in place of bytes that are
// not UTF-8 (TestJSON), takes a string of any length into memory, and allocates for each value.
//
// Rows that are written twice stay the same, so that a part may be moved again.
//
// A Server and a Source are safe for concurrent use, except Follow.
package influxhttp
