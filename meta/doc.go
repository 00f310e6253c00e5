// Package meta is the catalog: databases, retention policies, shard groups,
// users with their grants, continuous queries and subscriptions.
//
// The whole catalog is one immutable *Data with an Index that counts changes.
// A change is a Command; Apply(cmd, data) is a pure function without clock,
// randomness or local configuration, so the same commands give the same Data
// on every machine. Catalog keeps the current Data behind an atomic pointer
// and makes a new one durable, in two copies, before anyone can see it.
//
// Invariants: ids of databases, shard groups and shards are never given twice;
// the shard groups of a retention policy are sorted and do not overlap; a
// reader's Data never changes; what Catalog.Apply returned without an error is
// still there after a crash or the loss of one copy. A failure
// once the copies are being replaced is sticky (W7): the catalog is read-only
// until reopened. One before that leaves the copies alone, and no trace.
//
// The package also is the one home of the shard group rules: which duration a
// policy's groups get (ShardDurations) and where groups begin (GroupBounds). It
// deletes nothing by itself (package retention decides) and runs no continuous
// query and no subscription: it only stores their definitions.
//
// Data may be read by any number of goroutines. Catalog.Apply serialises its
// callers.
package meta
