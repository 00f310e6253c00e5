// Package store is the engine of one node: it owns the catalog, the log, the
// series files and the shards, and keeps them in step.
//
// A write (Write) is checked and routed first (package route): retention policy, shard
// groups, field types, limits, series ids, memory. Then its accepted points become one
// entry of the log. When the entry is durable the log's applier calls apply,
// strictly in sequence order, and the shards' caches take the rows; then the
// writer is answered (W1, W2). The write holds its new fields and the ids of its new
// series until then (route.Router): they become real when the entry is applied, and
// leave no trace if it is refused. A delete selects its series first. It then goes
// the same way with the gate closed, so that it meets neither half-checked nor
// unapplied writes. A change of the catalog (Apply) is an entry as well; submit is
// the only way to one. Replay calls the same apply.
//
// Log is what the store needs of a log. That of a single node is a wal.Log, whose end
// the ledger remembers. A log may also have entries of other nodes: a store that was
// opened as a Follower applies them by the same code as a replay (follower), and takes
// writes of its own between Lead and Retire.
//
// Loops work in the background: flushes (a shard's cache is large, old,
// or pins the log; memory is above the soft mark), compactions (small merges, and large ones beside them), and retention.
// Above the hard mark of memory writes are refused with ErrOverloaded (W9).
//
// ARCHITECTURE.md states the order of the locks.
package store
