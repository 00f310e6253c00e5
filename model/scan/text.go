package scan

// Texter is an optional interface of Chunk. It tells a reader how much memory
// its strings need.
type Texter interface {
	// TextBytes returns the bytes of the texts of column i, about, without
	// decoding them; 0 for other types.
	TextBytes(i int) int64
}

// Charger is an optional interface of Shard. It bounds the memory of lists of
// texts.
type Charger interface {
	// Charged returns the shard with TagValues, FirstTagValues, LastTagValues and
	// GroupBy that call charge before they take memory for texts, and end with its
	// error.
	Charged(charge func(bytes int64) error) Shard
}

// ChargedShards returns shards whose lists of texts are charged, where they can.
func ChargedShards(shards []Shard, charge func(bytes int64) error) []Shard {
	out := make([]Shard, len(shards))
	for i, s := range shards {
		out[i] = s
		if c, ok := s.(Charger); ok {
			out[i] = c.Charged(charge)
		}
	}
	return out
}
