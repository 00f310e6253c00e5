// Package shard composes one time range of one retention policy: a cache of
// the newest rows, immutable TSM and TSI files, and a manifest that says which
// files count.
//
// Writing: the store's single applier calls Apply and Delete in log order.
// Flush freezes the cache at a sequence number, writes its rows to a TSM file
// and its index to a TSI file, and swaps the manifest: that is the one commit
// point, after which the log up to the sequence is not needed. Compact merges
// files that are neighbours in sequence order, again with one manifest swap:
// package plan chooses them, merger writes them, into several files that split the
// series where one would be too large.
//
// Reading: View takes the present file set, caches, and index. A cursor merges
// what they hold of each series, newer sequence over older, and returns chunks
// that decode lazily. It has three parts: walk (which series), pieces (which
// chunks of files and rows of caches overlap), and merging.
//
// Order is one number (W4, W5). Files cover ascending sequence ranges. The ranges
// are disjoint, except those of the files of one merge, which have no series in
// common. A tombstone hides only rows with a lower sequence.
//
// Moves give the rows that series have to other series, or a field another name
// (ALTER MEASUREMENT, UPDATE). Move notes one in the manifest and changes the index; no
// row is written. A file or cache that is older than the move keeps its rows under
// the old series, until a merge takes them out of it (apply_moves.go). Until then a
// moves.Door, the one way to such rows, says in which parts, under which series and
// field names a series has them. Reads, merges, deletes, and repairs ask it, and so does
// the check of a backup. It is nil while no move waits, and then all of them go straight
// to the parts.
//
// Damage: Open moves a file whose frame is damaged to quarantine and rebuilds
// indexes and manifests from the TSM files (package repair). Damage of a block is
// an error of the read that meets it, and keeps the file out of merges. Compact
// rebuilds an index in which a read has met damage.
//
// A Shard does not know the log or the catalog. Reads may run concurrently with
// everything. Apply, Delete, and Freeze are called by one goroutine at a time. One
// Flush and one Compact may run at the same time.
package shard
