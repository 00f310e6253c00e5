// Package files is a mover.Sink that loads sorted rows into an open store.
//
// Sink.Parts cuts the parts of the source by the shard groups of the store. A shard that has
// nothing gets finished files (store.Build), as many shards at a time as the move has
// workers; where several parts of the source meet in a shard, merged gives their rows in one
// order. A shard that has points gets the rows by writes.
//
// Each shard is counted when it is loaded, so that the move compares it before it notes it
// in the journal. A shard that was finished and not noted is written once more, which changes nothing.
//
// Invariants: a shard holds all rows of its parts or none until its files are published. A
// part in the journal names the directory, so that a directory made again gets all.
package files
