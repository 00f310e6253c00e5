// Package inspect reads a data directory without changing it. WAL, TSM, TSI,
// Series, Manifest, Shard, Encodings, and Report show what its files hold. Verify
// checks whether they are sound and agree with each other.
//
// Open runs the server's store over an overlay.FS, which keeps every change in
// memory: it replays the log, cuts torn ends, and rebuilds what is damaged there.
//
// Hold keeps a server from starting on a directory while it is read, by a shared
// lock on the file that servers lock exclusively. It writes nothing.
//
// Invariants: no byte of the directory changes. All damage is reported with its
// file and, if the format allows, its offset. Damage does not end a check (W8).
// The package repairs nothing.
package inspect
