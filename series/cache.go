package series

import "sync"

// blockCache bounds the unpacked blocks in memory. It keeps a ring of cached
// blocks and evicts with the clock rule: a block that was used since the hand
// passed it stays for another round. Hits take no lock, see keyLocked.
type blockCache struct {
	limit int
	mu    struct {
		sync.Mutex
		ring  []*blockEntry
		hand  int
		bytes int
	}
}

// add caches b for e. If another goroutine was faster its block stays.
func (c *blockCache) add(e *blockEntry, b *block) {
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

// drop forgets every block.
func (c *blockCache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.mu.ring {
		e.cached.Store(nil)
	}
	c.mu.ring, c.mu.hand, c.mu.bytes = nil, 0, 0
}
