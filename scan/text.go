package scan

// Texter is an optional interface of Chunk. It tells a reader how much memory
// its strings need.
type Texter interface {
	// TextBytes returns the bytes of the texts of column i, about, without
	// decoding them; 0 for other types.
	TextBytes(i int) int64
}
