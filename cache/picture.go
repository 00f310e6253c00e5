package cache

import (
	"slices"
	"sync"
	"sync/atomic"

	"tsdbd/model"
	"tsdbd/model/point"
)

// Picture is what a Cache holds at one moment: rows that are appended later are not
// in it, and rows that are deleted later still are. It shares the rows with the cache,
// and copies the states of the series.
type Picture struct {
	c       *Cache
	states  []state
	slabs   [][]uint64
	strings [][]byte
	layouts []*point.Layout

	changed atomic.Bool // heads has any
	mu      sync.Mutex
	heads   map[uint64]uint64 // word 1, as it was, of chunks with rows deleted since; by link
}

// Picture returns what the cache holds now. No Apply and no Delete runs. The caller
// must Release it.
func (c *Cache) Picture() *Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &Picture{
		c: c, states: make([]state, 0, c.mu.count),
		slabs: c.mu.arena.slabs, strings: c.mu.strings.slabs, layouts: c.mu.layouts,
		heads: map[uint64]uint64{},
	}
	for _, chunk := range c.mu.chunks {
		p.states = append(p.states, chunk[:min(len(chunk), c.mu.count-len(p.states))]...)
	}
	c.pictures.Lock()
	defer c.pictures.Unlock()
	c.pictures.list = append(c.pictures.list, p)
	return p
}

// Release ends the picture. It may be called once.
func (p *Picture) Release() {
	p.c.pictures.Lock()
	defer p.c.pictures.Unlock()
	p.c.pictures.list = slices.DeleteFunc(p.c.pictures.list, func(q *Picture) bool { return p == q })
}

// NewGatherer returns a Gatherer over the picture.
func (p *Picture) NewGatherer() *Gatherer { return &Gatherer{c: p.c, picture: p} }

// state returns the state that a series had.
func (p *Picture) state(id model.SeriesID) (state, bool) {
	p.c.mu.RLock()
	defer p.c.mu.RUnlock()
	n := p.c.stateNumber(uint32(id))
	if n == 0 || int(n) > len(p.states) {
		return state{}, false
	}
	st := p.states[n-1]
	return st, st.rows > 0
}

// head returns word 1 of a chunk as it was, now being what it is.
func (p *Picture) head(link, now uint64) uint64 {
	if !p.changed.Load() {
		return now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if was, ok := p.heads[link]; ok {
		return was
	}
	return now
}

// keep keeps word 1 of a chunk in the pictures, before rows of it are deleted.
func (c *Cache) keep(link, now uint64) {
	c.pictures.Lock()
	defer c.pictures.Unlock()
	for _, p := range c.pictures.list {
		p.mu.Lock()
		if _, ok := p.heads[link]; !ok {
			p.heads[link] = now
		}
		p.mu.Unlock()
		p.changed.Store(true)
	}
}
