// Package read reads the rows of series in one shard: Budget.Units selects and
// groups the series of a measurement, Unit.Bind resolves columns against a shard,
// and Budget.Rows returns the rows of the groups, filtered and in order of time.
// A ChunkReader decodes the columns of a chunk and picks its rows, for Rows and for
// partial aggregates.
//
// Statistics of a chunk decide a predicate where they can (decider). Where only the
// first rows are wanted, a walk over index entries finds the series that have them
// (frontier).
//
// A Budget bounds what a statement uses, and its goroutines share it. Units are
// read-only once they are made. Everything else belongs to one goroutine.
package read
