// Package scan is the read contract between storage and query. Storage
// implements View, Shard, Cursor and Chunk; query calls them.
//
// A query takes a View of one database and retention policy: the shards that
// overlap its time range, each an immutable, referenced picture. In a Shard it
// turns a tag predicate into a set of series, groups them by tag values, and
// opens cursors over disjoint parts of the set, one cursor per worker. A
// cursor walks series by series and, within a series, chunk by chunk in time
// order. The row count, time range, and per-column statistics of a chunk cost
// nothing. Timestamps and values are decoded when they are asked for.
//
// Series ids are the same in all shards of a database. A View is safe for
// concurrent use. A Cursor belongs to one goroutine. Package scantest has a
// storage in memory for tests of callers.
package scan
