package series

import (
	"slices"
	"sync"
)

// Cache bounds the unpacked blocks in memory, of all files that share it. It keeps a ring of
// cached blocks and evicts with the clock rule: a block that was used since the hand
// passed it stays for another round. Hits take no lock, see keyLocked.
type Cache struct {
	limit int
	mu    struct {
		sync.Mutex
		ring  []*blockEntry
		hand  int
		bytes int
	}
}

// NewCache returns a cache of so many bytes.
func NewCache(bytes int) *Cache { return &Cache{limit: bytes} }

// add caches b for e. If another goroutine was faster its block stays.
func (c *Cache) add(e *blockEntry, b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.cached.CompareAndSwap(nil, b) {
		return
	}
	e.used.Store(true)
	c.mu.bytes += b.size()
	for c.mu.bytes > c.limit && len(c.mu.ring) > 0 {
		if c.mu.hand >= len(c.mu.ring) {
			c.mu.hand = 0
		}
		v := c.mu.ring[c.mu.hand]
		if v.used.Swap(false) {
			c.mu.hand++
			continue
		}
		if old := v.cached.Swap(nil); old != nil {
			c.mu.bytes -= old.size()
		}
		last := len(c.mu.ring) - 1
		c.mu.ring[c.mu.hand] = c.mu.ring[last]
		c.mu.ring = c.mu.ring[:last]
	}
	c.mu.ring = append(c.mu.ring, e)
}

// drop forgets the blocks of entries.
func (c *Cache) drop(entries []*blockEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		if old := e.cached.Swap(nil); old != nil {
			c.mu.bytes -= old.size()
		}
	}
	c.mu.ring = slices.DeleteFunc(c.mu.ring, func(e *blockEntry) bool { return e.cached.Load() == nil })
}
