// Package wal is the write-ahead log of a store: entries (see package entry) in
// segment files, durable before they are acknowledged, replayed in order after a
// restart.
//
// Append encodes an entry in the caller's goroutine and queues it. One
// committer takes what is queued as a group, gives each entry its sequence
// number, puts definitions of series that the segment does not know yet before
// it, and writes and syncs the group at once. One applier then calls
// Options.Apply for each entry in order and wakes its writer, while the
// committer writes the next group. Replay reads the segments back with a reader
// that resynchronises behind damage. Rotate and Trim let segments go; trimmed
// segments are recycled, because overwriting allocated blocks syncs twice as
// fast as extending a file.
//
// Invariants: an entry is durable before Apply sees it and Append returns (W1,
// W2); a segment goes only by Trim, and the newest one stays (W3); after a
// failed write or sync, or an entry that Apply fails on, nothing more is acknowledged
// until the log is opened again (W7), but a lack of space passes, see Append; damaged bytes are never
// delivered, an entry is delivered wholly or not at all (W8); the queue, the
// group and the reader's window are bounded (W9).
//
// The package knows nothing of shards, caches or the series file: it does not
// look at delete sets, does not decide what may be trimmed, and takes no lock
// against a second process. docs/formats/wal.md describes the files.
//
// Append, Rotate, Trim, Stats, Sequence and Err may be called by any
// goroutine; Open, Replay, Advance and Damage by one, before the others; Close
// once everybody is done, though late calls only get ErrClosed.
package wal
