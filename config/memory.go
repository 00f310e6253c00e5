package config

import "math"

// shareMemory gives every memory setting that is 0 its part of the heap.
func (c *Config) shareMemory(heap int64) {
	part := func(s *Size, bytes, least, most int64) {
		if *s == 0 {
			*s = Size(max(least, min(bytes, most)) &^ (1<<20 - 1))
		}
	}
	part(&c.Data.CacheMaxMemory, heap/4, 8<<20, 512<<20)
	part(&c.Data.FlushSize, int64(c.Data.CacheMaxMemory)/8, 1<<20, 48<<20)
	part(&c.Data.SeriesMemory, heap/8, 4<<20, math.MaxInt64)
	part(&c.HTTP.MaxBodyMemory, heap/8, max(int64(c.HTTP.MaxBodySize)+1<<20, 8<<20), 512<<20)
	part(&c.Query.MaxTotalMemory, heap/4, 8<<20, math.MaxInt64)
	part(&c.Query.MaxMemory, int64(c.Query.MaxTotalMemory)/2, 8<<20, 1<<30)
}
