// Package meta is the catalog: databases, retention policies, shard groups,
// users with their grants, continuous queries, subscriptions and boards.
//
// The whole catalog is one immutable *Data with an Index that counts changes.
// A change is a Command; Apply(cmd, data) is a pure function without clock,
// randomness or local configuration, so the same commands give the same Data
// on every machine. The log of the store has each as a Change; Catalog applies these
// in the log's order, keeps the current Data behind an atomic pointer, and appends the
// changes to two copies when Save is called. A copy is the Data as it once was, and records
// of the changes since; with too many of these it is written anew.
//
// Invariants: ids of databases, shard groups and shards are never given twice;
// the shard groups of a retention policy are sorted and do not overlap; a
// reader's Data never changes; what Save returned without an error for is still
// there after a crash or the loss of one copy; a change that the copies have is never
// applied again, so that a drop does not reach what was made after it.
//
// The package also is the one home of the shard group rules: which duration a
// policy's groups get (ShardDurations) and where groups begin (GroupBounds). It
// deletes nothing by itself (package retention decides) and runs no continuous
// query and no subscription: it only stores their definitions.
//
// Data may be read by any number of goroutines. Catalog may be used by any; the order
// of Apply is the caller's.
package meta
