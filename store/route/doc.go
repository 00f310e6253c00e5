// Package route decides which shard takes each row of a batch, and drops rows that may
// not be stored: those outside of the times of a retention policy, with fields of another
// type, with texts that are too long, or of new series for which a limit leaves no room.
// Series that are new get an id.
//
// A Router goes through the rows in their order, because the last of equal times wins. It
// holds the fields and series that are new until Release (newcomers): if the entry of the
// write is applied, the shards know them by then; if not, they leave no trace.
//
// A Router belongs to one goroutine.
package route
