// Package load moves the rows of a Source, which come sorted by series, into tsdbd.
//
// Into loads into an open store. It cuts the source by the shard groups of the store. A
// shard that has nothing gets finished files (store.Build), two shards at a time; where
// several parts of the source meet in a shard, merged gives their rows in one order. A
// shard that has points gets the rows by writes. Send loads into a server that runs, by
// line protocol (transfer.Import).
//
// The catalog comes first: databases, policies, users with the hashes of their passwords,
// grants, continuous queries, subscriptions. What exists stays as it is.
//
// Each shard is compared with its source when it is loaded, and only then noted in the
// journal. After a kill the same load goes on with the shards that the journal lacks. A
// shard that was finished and not noted is written once more, which changes nothing.
//
// Invariants: a row of the source is loaded, or counted and handed to Refusals, or left
// out with a note (older than the policy keeps, or damaged). A shard holds all rows of its
// source or none until its files are published.
package load
