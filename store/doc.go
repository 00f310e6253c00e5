// Package store is the engine of one node: it owns the catalog, the log, the
// series files and the shards, and keeps them in step.
//
// A write (Write) is checked and routed first: retention policy, shard groups,
// field types, limits, series ids, memory. Then its accepted points become one
// entry of the log; when the entry is durable the log's applier calls apply,
// strictly in sequence order, and the shards' caches take the rows; then the
// writer is answered (W1, W2). The new fields and series of a write are held for
// it until then (newcomers): they become real when the entry is applied, and
// leave no trace if it is refused. A delete selects its series first; then it goes the same way with the gate closed, so that
// it meets neither half-checked nor unapplied writes. Replay calls the same
// apply.
//
// Three loops work in the background: flushes (a shard's cache is large, old,
// or pins the log; memory is above the soft mark), compactions, and retention.
// Above the hard mark of memory writes are refused with ErrOverloaded (W9).
//
// Lock order: flushing > deleting > gate > cardinality.mu > Store.mu > shard > cache, index; the log is a leaf.
package store
