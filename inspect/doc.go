// Package inspect reads a data directory without changing it: what its files
// say (WAL, TSM, TSI, Series, Shard, Report) and whether they are sound and
// agree (Verify).
//
// Overlay is a vfs.FS that keeps every change to itself. With it Open runs the
// real store over a directory that stays as it is, byte for byte: the log is
// replayed, torn ends are cut and left-over files are ignored in memory only.
// Paths can be mapped to other files, which lets a backup be opened as if it
// were a data directory.
//
// Hold keeps a server from starting on a directory while it is read, by a
// shared lock on the file that the server locks exclusively; it writes nothing.
//
// Invariants: no byte of the directory changes; every damage is told with its
// file and, where the format allows, its offset, and does not end the check
// (W8). The package repairs nothing.
//
// An Overlay is safe for concurrent use.
package inspect
