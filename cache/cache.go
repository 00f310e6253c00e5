package cache

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// state is what the cache knows of a series. It is small: in a million series
// of a row each it outweighs the rows.
type state struct {
	newest   uint64 // as word 0 of a chunk: link to the newest chunk, its layout; 0: none
	min, max int64
	rows     uint32 // appended, deleted ones included
	used     uint8  // rows of the newest chunk
	capacity uint8  // of the newest chunk, log2 of rows
	grow     uint8  // log2 of the next chunk's rows
	flags    uint8
}

const (
	stateBytes = int64(unsafe.Sizeof(state{}))

	unsorted = 1 << 0 // a row came with a time not above max
	gone     = 1 << 1 // the series left the index; its next row announces it again
)

// link returns the reference of the newest chunk +1, 0 if there is none.
func (st *state) link() uint64 { return st.newest & linkMask }

// layout returns the number of the newest chunk's layout.
func (st *state) layout() uint32 { return uint32(st.newest >> linkBits) }

func orWord(w *uint64, bits uint64) { atomic.OrUint64(w, bits) }

const (
	pageBits  = 10
	chunkBits = 6 // 2 KiB: a shard may hold a few series only
)

// Observer is called with the series and layouts that a Cache has not had before, before
// their rows become readable: the shard updates its index.
type Observer interface {
	NewSeries(series []*point.Series)
	NewLayout(l *point.Layout)
}

// Cache is the row log of one shard. Apply, Delete and Forget are called by
// one goroutine at a time; everything else by any number at any time.
type Cache struct {
	observer Observer
	refs     atomic.Int64
	bytes    atomic.Int64
	mu       struct {
		sync.RWMutex
		arena   arena
		strings stringArena
		pages   [][]uint32 // series id -> state number +1
		chunks  [][]state
		count   int // states
		paged   int // pages that exist
		layouts []*point.Layout
		rows    int64
		times   model.TimeRange

		layoutBytes int64
	}
	pictures struct {
		sync.Mutex
		list []*Picture
	}
	// Used by the applier alone. A layout's number is found by its pointer, or,
	// where equal layouts may come as any number of pointers, by its signature.
	numbers    map[*point.Layout]uint32
	bySign     map[string]uint32
	announced  []bool // by number: the observer knows the layout
	lastLayout *point.Layout
	lastNumber uint32
	lastString bool
	fresh      []*point.Series // scratch of announce
}

// New returns an empty cache that has one reference. It takes slabs from kept, and gives them
// back with the last reference. observer and kept may be nil.
func New(observer Observer, kept *Slabs) *Cache {
	c := &Cache{observer: observer, numbers: make(map[*point.Layout]uint32), bySign: make(map[string]uint32)}
	c.refs.Store(1)
	c.mu.arena.kept = kept
	c.mu.times = model.TimeRange{Min: math.MaxInt64, Max: math.MinInt64}
	return c
}

// Acquire takes one more reference. The caller knows of one that is not released meanwhile.
func (c *Cache) Acquire() { c.refs.Add(1) }

// Release gives a reference back. With the last one the cache loses its rows (W6): their
// memory is for other caches. Strings of rows stay valid.
func (c *Cache) Release() {
	if c.refs.Add(-1) != 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.arena.kept.give(c.mu.arena.slabs)
	c.mu.arena, c.mu.strings = arena{}, stringArena{}
	c.mu.pages, c.mu.chunks, c.mu.count, c.mu.paged, c.mu.rows = nil, nil, 0, 0, 0
}

// Bytes returns the memory the cache holds.
func (c *Cache) Bytes() int64 { return c.bytes.Load() }

// Rows returns the number of rows appended.
func (c *Cache) Rows() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.rows
}

// Count returns the number of series that the cache has met.
func (c *Cache) Count() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.count
}

// TimeRange returns a range that holds all rows' times, Empty if there are none.
func (c *Cache) TimeRange() model.TimeRange {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.times
}

// lockRows bounds how many rows are appended under one hold of the lock, so
// that readers wait some tens of microseconds at most.
const lockRows = 2048

// Apply appends rows whose series have ids. The value words and strings are
// copied; see point.Batch for their form.
func (c *Cache) Apply(rows []point.Row, values []uint64, strings []byte) {
	for len(rows) > 0 {
		n := min(len(rows), lockRows)
		c.announce(rows[:n])
		c.mu.Lock()
		for i := range rows[:n] {
			c.appendLocked(&rows[i], values, strings)
		}
		c.bytes.Store(c.mu.arena.bytes + c.mu.strings.bytes + c.mu.layoutBytes + int64(len(c.mu.chunks))<<chunkBits*stateBytes + int64(len(c.mu.pages))*24 + int64(c.mu.paged)*(4<<pageBits))
		c.mu.Unlock()
		rows = rows[n:]
	}
}

// announce makes states and layout numbers for new series and layouts of rows, and
// calls the observer. Only the applier writes these structures, so it reads them
// without the lock and takes the lock to change them.
func (c *Cache) announce(rows []point.Row) {
	fresh := c.fresh[:0]
	for i := range rows {
		row := &rows[i]
		if row.Layout != c.lastLayout {
			c.useLayout(row.Layout)
		}
		if st := c.lookup(uint32(row.Series.ID())); st == nil || st.flags&gone != 0 {
			fresh = append(fresh, row.Series)
		}
	}
	if len(fresh) == 0 {
		return
	}
	c.mu.Lock()
	n := 0
	for _, s := range fresh {
		id := uint32(s.ID())
		switch st := c.lookup(id); {
		case st == nil:
			c.addStateLocked(id)
		case st.flags&gone != 0:
			st.flags &^= gone
		default:
			continue // rows have it more than once
		}
		fresh[n] = s
		n++
	}
	c.mu.Unlock()
	if c.observer != nil {
		c.observer.NewSeries(fresh[:n])
	}
	clear(fresh)
	c.fresh = fresh
}

// layoutCost estimates the memory of the maps for a layout, without the layout itself,
// which is the table's if it is interned.
const layoutCost = 160

// useLayout makes l the layout of the next rows, and calls the observer if it is new.
func (c *Cache) useLayout(l *point.Layout) {
	n, ok := c.number(l)
	if !ok {
		cost := int64(layoutCost)
		if !l.Interned() {
			cost += l.Bytes()
		}
		c.mu.Lock()
		n = uint32(len(c.mu.layouts))
		c.mu.layouts = append(c.mu.layouts, l)
		c.mu.layoutBytes += cost
		c.mu.Unlock()
		c.numbers[l], c.bySign[l.Signature()] = n, n
		c.announced = append(c.announced, false)
	}
	if !c.announced[n] {
		c.announced[n] = true
		if c.observer != nil {
			c.observer.NewLayout(l)
		}
	}
	c.setLayout(l, n)
}

// number finds the number of a layout.
func (c *Cache) number(l *point.Layout) (uint32, bool) {
	n, ok := c.numbers[l]
	if ok {
		return n, true
	}
	if n, ok = c.bySign[l.Signature()]; ok && l.Interned() {
		c.numbers[l] = n
	}
	return n, ok
}

func (c *Cache) setLayout(l *point.Layout, n uint32) {
	c.lastLayout, c.lastNumber, c.lastString = l, n, false
	for _, f := range l.Fields {
		if f.Type == model.String {
			c.lastString = true
		}
	}
}

// lookup returns the state of a series or nil. The caller is the applier or
// holds the lock.
func (c *Cache) lookup(id uint32) *state {
	n := c.stateNumber(id)
	if n == 0 {
		return nil
	}
	n--
	return &c.mu.chunks[n>>chunkBits][n&(1<<chunkBits-1)]
}

// stateNumber returns the number +1 of the state of a series, 0 if it has none.
func (c *Cache) stateNumber(id uint32) uint32 {
	p := id >> pageBits
	if int(p) >= len(c.mu.pages) || c.mu.pages[p] == nil {
		return 0
	}
	return c.mu.pages[p][id&(1<<pageBits-1)]
}

func (c *Cache) addStateLocked(id uint32) {
	p := int(id >> pageBits)
	for len(c.mu.pages) <= p {
		c.mu.pages = append(c.mu.pages, nil)
	}
	if c.mu.pages[p] == nil {
		c.mu.pages[p] = make([]uint32, 1<<pageBits)
		c.mu.paged++
	}
	n := c.mu.count
	if n>>chunkBits >= len(c.mu.chunks) {
		c.mu.chunks = append(c.mu.chunks, make([]state, 1<<chunkBits))
	}
	// Written here, where nothing waits for it, it is at hand when the row comes.
	c.mu.chunks[n>>chunkBits][n&(1<<chunkBits-1)] = state{}
	c.mu.count++
	c.mu.pages[p][id&(1<<pageBits-1)] = uint32(n + 1)
}

func (c *Cache) appendLocked(row *point.Row, values []uint64, strings []byte) {
	if row.Layout != c.lastLayout {
		n, _ := c.number(row.Layout) // announce has given it one
		c.setLayout(row.Layout, n)
	}
	st := c.lookup(uint32(row.Series.ID()))
	n := len(row.Layout.Fields)
	if st.newest == 0 || st.layout() != c.lastNumber || st.used == 1<<st.capacity {
		c.openChunk(st, c.lastNumber, n)
	}
	o := headWords + int(st.used)*(1+n)
	words := at(c.mu.arena.slabs, st.link()-1)[o : o+1+n]
	words[0] = uint64(row.Time)
	copy(words[1:], values[row.First:int(row.First)+n])
	if c.lastString {
		for i, f := range row.Layout.Fields {
			if f.Type == model.String {
				s := column.StringAt(words[1+i], strings)
				words[1+i] = column.StringWord(int(c.mu.strings.add(s)), len(s))
			}
		}
	}
	switch {
	case st.rows == 0:
		st.min, st.max = row.Time, row.Time
	case row.Time > st.max:
		st.max = row.Time
	default:
		st.flags |= unsorted
		st.min = min(st.min, row.Time)
	}
	st.rows++
	st.used++
	c.mu.rows++
	c.mu.times.Min = min(c.mu.times.Min, row.Time)
	c.mu.times.Max = max(c.mu.times.Max, row.Time)
}

// eachLocked calls fn with the state of every series, in ascending order of id.
func (c *Cache) eachLocked(fn func(id uint32, st *state)) {
	for p, page := range c.mu.pages {
		for i, n := range page {
			if n != 0 {
				n--
				fn(uint32(p<<pageBits|i), &c.mu.chunks[n>>chunkBits][n&(1<<chunkBits-1)])
			}
		}
	}
}

// Series returns the ids of all series the cache holds rows of, ascending.
func (c *Cache) Series() []model.SeriesID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ids := make([]model.SeriesID, 0, c.mu.count)
	c.eachLocked(func(id uint32, st *state) {
		if st.rows > 0 {
			ids = append(ids, model.SeriesID(id))
		}
	})
	return ids
}

// Delete hides the rows of the series in set whose times lie in r (W5). Rows
// appended later are not touched.
func (c *Cache) Delete(set *roaring.Bitmap, r model.TimeRange) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	hide := func(st *state) {
		if st.rows == 0 || st.max < r.Min || st.min > r.Max {
			return
		}
		w := chunkWalk{slabs: c.mu.arena.slabs, layouts: c.mu.layouts, before: st.link(), newest: int(st.used)}
		for w.next() {
			hidden := uint64(0)
			for i := range w.used {
				if r.Contains(int64(w.row(i)[0])) {
					hidden |= 1 << i
				}
			}
			if hidden != 0 {
				c.keep(w.at, w.head)
				orWord(&w.words[1], hidden)
			}
		}
	}
	if set.GetCardinality() < uint64(c.mu.count) {
		it := set.Iterator()
		for it.HasNext() {
			if st := c.lookup(it.Next()); st != nil {
				hide(st)
			}
		}
		return
	}
	c.eachLocked(func(id uint32, st *state) {
		if set.Contains(id) {
			hide(st)
		}
	})
}

// Forget makes the next row of each series in set, and of every layout,
// announce itself to the observer again: the series have left the index.
func (c *Cache) Forget(set *roaring.Bitmap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eachLocked(func(id uint32, st *state) {
		if set.Contains(id) {
			st.flags |= gone
		}
	})
	clear(c.announced)
	c.lastLayout = nil
}
