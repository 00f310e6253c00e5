// Package raftlog keeps the log of a member of a cluster on the disk: it is the
// raft.LogStore, the raft.StableStore and the raft.SnapshotStore of
// github.com/hashicorp/raft. docs/formats/raftlog.md describes the files.
//
// Create makes a log that begins after a Base, Open reads it. StoreLogs writes the entries
// of one call as one batch, with one write and one sync. DeleteRange removes the end of the
// log, by a batch that says so. Every batch also says what is committed (Commit), so that a
// member knows it after a restart; no committed entry is ever removed (ErrCommitted).
// SetBase moves the base on and removes old segments.
//
// A member must never come back with fewer entries than it has acknowledged, because it
// could then help to elect a leader that lacks them. So Open tells the rest of an unfinished
// write, which it drops, from damage, which it reports (Damage). It never skips damage, and
// a damaged log accepts and returns nothing. The order of the checks:
//
//   - Every batch was synced before the next one was begun. If a batch follows, the ones
//     before are whole or damaged.
//   - A segment is filled with zeros before its first use, and never recycled. Every sector
//     of a batch begins with a byte that is not zero, its header and its end have such a
//     byte too. So only in the last batch zeros can show what a write has not reached. A
//     last batch that is wrong and has no such zeros is damaged.
//   - The header of a segment says where the one before ended. The base says which segment
//     was begun last, and which entries exist at least.
//   - Close writes a last batch, so that all others have one behind them.
//
// A last batch whose sectors the disk itself has replaced by zeros, in a log that was not
// closed, looks like an unfinished write. Nothing in the log can tell the two apart.
//
// The package does not know what the entries mean, except those that set the
// configuration. It takes no lock on the directory. A Store may be used by any number of
// goroutines: changes wait for each other, reads do not wait for changes.
package raftlog
