// Package route decides which shard takes each row of a batch, and drops rows that may
// not be stored: those outside of the times of a retention policy, with fields of another
// type, or with texts that are too long.
//
// A Router goes through the rows in their order, because the last of equal times wins. It
// leaves no trace in shards: fields and series that are new are the caller's to register.
//
// A Router belongs to one goroutine.
package route
