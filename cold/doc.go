// Package cold brings old shards to an object store, and keeps that store in order.
//
// Service looks for shards that are older than a given time, are merged fully, and from
// which no downsample has to compute windows any more. It has them go to the store
// (shard.Chill): it uploads the bodies of their files under names by content, as
// backups have them, and the shard keeps the tails. Before it uploads, it publishes the names
// (package names), so that no other node and no backup removes the objects. From time to time
// it has rows that were deleted leave the store (shard.Purge), and removes the objects that no
// node and no backup has needed for the time of grace.
//
// Invariants: an object that a manifest names is in the store, and in the list of its
// node. An object is removed only under the lock of the store and that of the backups, after
// all lists were read, and only if it was unneeded at every look for the time of grace. A
// store that belongs to another server is read and never changed.
//
// The package does not read for queries: internal/coldcache does. A Service may be used
// concurrently.
package cold
