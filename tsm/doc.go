// Package tsm reads and writes TSM files: immutable files that hold the rows
// of many series, sorted by series key. The bytes are described in
// docs/formats/tsm.md.
//
// A Writer takes series in the order of their keys and, for each, chunks of
// rows in the order of time: a chunk is one column of times shared by all
// fields and one column of values per field. Small chunks are inside the
// series' index entry, so that a file of very many short series is read front
// to back as one stream; larger ones are in the data section, and their
// index entry carries statistics (count, min, max, first, last, sum) per
// field. Finish writes the index and the footer.
//
// A Reader maps the file. Find turns a series id into an ordinal, Load decodes
// the index entry of an ordinal into a reusable Series, and Chunk positions a
// reusable Chunk whose times and columns are decoded only when asked for. All
// three are free of allocation once their buffers have grown.
//
// Invariants: a published file never changes (W4); every byte lies under a
// CRC32C that is checked before the byte is believed, so damage gives a
// *binio.CorruptError and never data (W8); a file is unmapped, and removed if
// it is obsolete, only after the last reference is gone (W6); the same calls
// give the same bytes (W10). Values never alias the mapping. Opening a file
// does not depend on its number of series.
//
// The package knows nothing of shards, manifests and tombstones: the caller
// renames, syncs the directory, hides deleted rows and chooses which file wins
// for equal times.
//
// A Writer belongs to one goroutine. A Reader is safe for concurrent use; a
// Series, a Chunk and a KeyCursor belong to one goroutine each and are used
// only while a reference to their Reader is held. If somebody shortens a
// mapped file from outside, or the disk cannot read a page, touching it raises
// SIGBUS: callers catch it with vfs.CatchFault, as Open and Verify do.
package tsm
