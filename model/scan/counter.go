package scan

// Counter is what a Chunk may implement beside Chunk, to spare a count the
// values.
type Counter interface {
	// Count returns the number of non-null values of column i, and false if
	// the column must be decoded to know it.
	Count(i int) (int, bool)
}

// Summer is what a Chunk may implement beside Chunk, to spare a sum the other
// statistics.
type Summer interface {
	// Sum sets Count, Sum and SumError of st as Stats does, and returns what that
	// would.
	Sum(i int, st *Stats) bool
}
