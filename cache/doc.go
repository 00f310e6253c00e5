// Package cache keeps a shard's newest points in memory until they are
// published as files.
//
// A Cache keeps a series' rows in small chunks (see chunk.go) in pointer-free
// arenas: a time and one word per value, row after row, chunks linked newest
// to oldest. A small state per series holds the newest chunk's place.
// Appending costs a few nanoseconds per value and never moves anything;
// reading a series walks its chunks, sorts when needed, and transposes the
// rows into columns (Gather).
//
// A shard has one active Cache, to which the store's single applier appends
// in log order, and while a flush runs a frozen one, its snapshot, which stays
// readable until its files are published. There is one writer by construction,
// so the cache is not striped: readers take the lock for the few words of a
// series' state only, and walk rows without it.
//
// A cache has references: the shard's, and one of each view. With the last one its slabs
// go to Slabs, from which other caches take theirs.
//
// Invariants: published rows never change, except for their deleted bit. For two rows
// with the same series and time, the later append wins field by field (W4). The caller
// logs rows before it appends them (W2).
package cache
