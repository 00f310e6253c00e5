package scan

// Cost is what a shard knows of a Request without reading it.
type Cost struct {
	CachedValues int64 // values in memory
	Files        int64 // files that hold blocks of the request
	Blocks       int64
	Bytes        int64 // encoded size of the blocks
	Rows         int64 // of the chunks, about; those of a chunk are taken for evenly spaced
}

// Add adds another cost.
func (c *Cost) Add(o Cost) {
	c.CachedValues += o.CachedValues
	c.Files += o.Files
	c.Blocks += o.Blocks
	c.Bytes += o.Bytes
	c.Rows += o.Rows
}
