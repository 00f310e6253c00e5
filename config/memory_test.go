package config

import "testing"

func TestMemoryIsShared(t *testing.T) {
	f := func(heap int64, cache, flush, body, query, total Size) {
		t.Helper()
		c := Default()
		c.shareMemory(heap)
		if c.Data.CacheMaxMemory != cache || c.Data.FlushSize != flush || c.HTTP.MaxBodyMemory != body ||
			c.Query.MaxMemory != query || c.Query.MaxTotalMemory != total {
			t.Errorf("heap of %d MiB: %+v %+v %+v", heap>>20, c.Data, c.HTTP, c.Query)
		}
		if err := c.validate(); err != nil {
			t.Errorf("heap of %d MiB: %v", heap>>20, err)
		}
	}
	f(32<<20, 8<<20, 1<<20, 24<<20, 8<<20, 8<<20)
	f(400<<20, 100<<20, 12<<20, 50<<20, 50<<20, 100<<20)
	f(4<<30, 512<<20, 48<<20, 512<<20, 512<<20, 1<<30)
	f(64<<30, 512<<20, 48<<20, 512<<20, 1<<30, 16<<30)

	c := Default()
	c.Data.CacheMaxMemory, c.Query.MaxMemory = 64<<20, 1<<20
	c.shareMemory(4 << 30)
	if c.Data.CacheMaxMemory != 64<<20 || c.Data.FlushSize != 8<<20 || c.Query.MaxMemory != 1<<20 {
		t.Errorf("settings given: %+v %+v", c.Data, c.Query)
	}
}
