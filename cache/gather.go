package cache

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"tsdbd/column"
	"tsdbd/model"
)

// Gatherer reads series out of a Cache, reusing its memory. It belongs to one
// goroutine.
type Gatherer struct {
	c       *Cache
	slabs   [][]uint64
	strings [][]byte
	layouts []*column.Layout

	refs  []rowRef
	links []uint64
	pos   []int32 // per wanted field: value index in the layout in use, -1 if absent
	field []column.Field
}

type rowRef struct {
	time   int64
	words  *uint64 // first value word
	layout uint32
}

// NewGatherer returns a Gatherer over c as it grows.
func NewGatherer(c *Cache) *Gatherer { return &Gatherer{c: c} }

// capture takes the series' state and what is needed to walk its rows.
func (g *Gatherer) capture(id model.SeriesID) (state, bool) {
	c := g.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	st := c.lookup(uint32(id))
	if st == nil || st.rows == 0 {
		return state{}, false
	}
	g.slabs, g.strings, g.layouts = c.mu.arena.slabs, c.mu.strings.slabs, c.mu.layouts
	return *st, true
}

// Range returns a range that holds the times of a series' rows, deleted ones
// included, and false if it has none.
func (g *Gatherer) Range(id model.SeriesID) (model.TimeRange, bool) {
	st, ok := g.capture(id)
	return model.TimeRange{Min: st.min, Max: st.max}, ok
}

// Newest appends to dst the times of the counts[i]-th newest row of a series
// whose rows came in the order of time, deleted rows counted, for ascending
// counts as far as it has more rows than that: they cut its rows into a few
// that are new and the rest. Of any other series it appends nothing. It costs
// a look at a chunk per 32 rows.
func (g *Gatherer) Newest(id model.SeriesID, counts []int, dst []int64) []int64 {
	st, ok := g.capture(id)
	if !ok || st.flags&unsorted != 0 {
		return dst
	}
	seen, used := 0, int(st.used)
	for link := st.link(); link != 0 && len(counts) > 0; {
		v := viewAt(g.slabs, g.layouts, link-1)
		if link != st.link() {
			used = int(atomic.LoadUint64(&v.words[1]) >> usedShift)
		}
		for len(counts) > 0 && counts[0] <= seen+used {
			if counts[0] >= int(st.rows) {
				return dst
			}
			dst = append(dst, int64(v.row(used + seen - counts[0])[0]))
			counts = counts[1:]
		}
		seen += used
		link = v.link
	}
	return dst
}

// Warm touches the chunks of some series, a step of every series in turn, so
// that the walks that follow find them in the processor's cache: following one
// chain of links costs a miss per chunk, following many at once overlaps them.
func (g *Gatherer) Warm(ids []model.SeriesID) {
	g.links = g.links[:0]
	for _, id := range ids {
		if st, ok := g.capture(id); ok {
			g.links = append(g.links, st.link())
		}
	}
	left := warmChunks
	for len(g.links) > 0 && left > 0 {
		n := 0
		for _, link := range g.links {
			if link = at(g.slabs, link-1)[0] & linkMask; link != 0 {
				g.links[n] = link
				n++
			}
		}
		left -= len(g.links)
		g.links = g.links[:n]
	}
}

const (
	// WarmSeries is a good number of series for one call of Warm: enough misses
	// at once to hide each other.
	WarmSeries = 32
	// warmChunks bounds what one call touches.
	warmChunks = 4096
)

// collect walks the series' living rows in r, newest first, into refs and
// turns them into order of age.
func (g *Gatherer) collect(id model.SeriesID, r model.TimeRange) (st state, ok bool) {
	g.refs = g.refs[:0]
	if st, ok = g.capture(id); !ok || st.max < r.Min || st.min > r.Max {
		return st, false
	}
	used := int(st.used)
	for link := st.link(); link != 0; {
		v := viewAt(g.slabs, g.layouts, link-1)
		head := atomic.LoadUint64(&v.words[1])
		if link != st.link() {
			used = int(head >> usedShift)
		}
		n := used
		if st.flags&unsorted == 0 && used > 0 && int64(v.row(0)[0]) > r.Max {
			n = 0 // all rows are newer
		}
		for i := n - 1; i >= 0; i-- {
			row := v.row(i)
			t := int64(row[0])
			if t >= r.Min && t <= r.Max && head>>i&1 == 0 {
				// A row has at least one value, so row[1] exists.
				g.refs = append(g.refs, rowRef{t, &row[1], v.layout})
			}
		}
		if st.flags&unsorted == 0 && used > 0 && int64(v.row(0)[0]) < r.Min {
			break // older rows are older still
		}
		link = v.link
	}
	slices.Reverse(g.refs)
	return st, len(g.refs) > 0
}

// union makes field the fields of the collected rows, sorted by key. Where a
// key stands with two types the newest row's counts.
func (g *Gatherer) union() {
	g.field = g.field[:0]
	seen := uint32(math.MaxUint32)
	for i := len(g.refs) - 1; i >= 0; i-- {
		if g.refs[i].layout == seen {
			continue
		}
		seen = g.refs[i].layout
		for _, f := range g.layouts[seen].Fields {
			if !slices.ContainsFunc(g.field, func(h column.Field) bool { return h.Key == f.Key }) {
				g.field = append(g.field, f)
			}
		}
	}
	slices.SortFunc(g.field, func(a, b column.Field) int { return strings.Compare(a.Key, b.Key) })
}

// GatherAll is Gather of all times and all fields, which it returns, sorted by
// key and valid until the next call.
func (g *Gatherer) GatherAll(dst *column.Rows, id model.SeriesID) ([]column.Field, bool) {
	st, ok := g.collect(id, model.TimeRange{Min: math.MinInt64, Max: math.MaxInt64})
	if !ok {
		return nil, false
	}
	g.union()
	g.transpose(dst, g.field, st)
	return g.field, len(dst.Times) > 0
}

// Gather fills dst with the series' living rows in r: the wanted fields'
// values, ascending unique times, newest value per field. Rows that have none
// of the fields are left out. It returns false if there are no rows. String
// values share the cache's memory and stay valid.
func (g *Gatherer) Gather(dst *column.Rows, id model.SeriesID, fields []column.Field, r model.TimeRange) bool {
	st, ok := g.collect(id, r)
	if !ok {
		dst.Times = dst.Times[:0]
		return false
	}
	g.transpose(dst, fields, st)
	return len(dst.Times) > 0
}

// transpose turns the collected rows into columns.
func (g *Gatherer) transpose(dst *column.Rows, fields []column.Field, st state) {
	dst.Times = dst.Times[:0]
	for len(dst.Cols) < len(fields) {
		dst.Cols = append(dst.Cols, column.Vector{})
	}
	dst.Cols = dst.Cols[:len(fields)]
	for i := range fields {
		dst.Cols[i].Reset(fields[i].Type)
	}
	if st.flags&unsorted != 0 {
		slices.SortStableFunc(g.refs, func(a, b rowRef) int { return cmp.Compare(a.time, b.time) })
	}
	if g.uniform() {
		g.transposeUniform(dst, fields)
	} else {
		g.transposeMixed(dst, fields)
	}
}

// uniform reports whether the sorted rows have one layout and unique times.
func (g *Gatherer) uniform() bool {
	for i := 1; i < len(g.refs); i++ {
		if g.refs[i].layout != g.refs[0].layout || g.refs[i].time == g.refs[i-1].time {
			return false
		}
	}
	return true
}

// place maps the wanted fields to value positions of a layout and reports
// whether there is any.
func (g *Gatherer) place(layout uint32, fields []column.Field) bool {
	g.pos = g.pos[:0]
	found := false
	for _, f := range fields {
		p := int32(-1)
		for i, lf := range g.layouts[layout].Fields {
			if lf.Key == f.Key && lf.Type == f.Type {
				p, found = int32(i), true
				break
			}
		}
		g.pos = append(g.pos, p)
	}
	return found
}

func word(base *uint64, i int32) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(base), uintptr(i)*8))
}

func (g *Gatherer) stringAt(w uint64) string {
	const lengthMask = 1<<24 - 1
	off, n := w>>24, w&lengthMask
	if n == 0 {
		return ""
	}
	slab := g.strings[off>>stringSlabBits]
	return unsafe.String(&slab[off&(stringSlab-1)], int(n))
}

// transposeUniform handles the common case: ascending unique times, one layout.
func (g *Gatherer) transposeUniform(dst *column.Rows, fields []column.Field) {
	n := len(g.refs)
	if n == 0 || !g.place(g.refs[0].layout, fields) {
		return
	}
	dst.Times = slices.Grow(dst.Times, n)[:n]
	for i := range g.refs {
		dst.Times[i] = g.refs[i].time
	}
	for c := range fields {
		v, p := &dst.Cols[c], g.pos[c]
		if p < 0 {
			v.Nulls(fields[c].Type, n)
			continue
		}
		v.Resize(n)
		switch v.Type {
		case model.Float:
			for i := range g.refs {
				v.Floats[i] = math.Float64frombits(word(g.refs[i].words, p))
			}
		case model.Integer:
			for i := range g.refs {
				v.Ints[i] = int64(word(g.refs[i].words, p))
			}
		case model.Unsigned:
			for i := range g.refs {
				v.Uints[i] = word(g.refs[i].words, p)
			}
		case model.Boolean:
			for i := range g.refs {
				v.Bools[i] = word(g.refs[i].words, p) != 0
			}
		case model.String:
			for i := range g.refs {
				v.Strings[i] = g.stringAt(word(g.refs[i].words, p))
			}
		}
	}
}

// transposeMixed handles rows of several layouts and equal times: the refs are
// sorted by time, then by age.
func (g *Gatherer) transposeMixed(dst *column.Rows, fields []column.Field) {
	layout, any := uint32(math.MaxUint32), false
	for i := 0; i < len(g.refs); {
		j := i + 1
		for j < len(g.refs) && g.refs[j].time == g.refs[i].time {
			j++
		}
		row := len(dst.Times)
		rowOpen := false
		for k := j - 1; k >= i; k-- { // newest first; a value once set stays
			ref := &g.refs[k]
			if ref.layout != layout {
				layout = ref.layout
				any = g.place(layout, fields)
			}
			if !any {
				continue
			}
			if !rowOpen {
				rowOpen = true
				dst.Times = append(dst.Times, ref.time)
				for c := range dst.Cols {
					dst.Cols[c].AppendNull()
				}
			}
			for c := range dst.Cols {
				if p := g.pos[c]; p >= 0 && !dst.Cols[c].IsValid(row) {
					g.set(&dst.Cols[c], row, word(ref.words, p))
				}
			}
		}
		i = j
	}
	n := len(dst.Times)
	for c := range dst.Cols {
		if v := &dst.Cols[c]; v.Valid != nil && v.Valid.Count(n) == n {
			v.Valid = nil
		}
	}
}

// set stores a value in a row that was null.
func (g *Gatherer) set(v *column.Vector, row int, w uint64) {
	v.Valid.Set(row)
	switch v.Type {
	case model.Float:
		v.Floats[row] = math.Float64frombits(w)
	case model.Integer:
		v.Ints[row] = int64(w)
	case model.Unsigned:
		v.Uints[row] = w
	case model.Boolean:
		v.Bools[row] = w != 0
	case model.String:
		v.Strings[row] = g.stringAt(w)
	}
}

// HasRows reports whether the series has a living row.
func (g *Gatherer) HasRows(id model.SeriesID) bool {
	st, ok := g.capture(id)
	if !ok {
		return false
	}
	used := int(st.used)
	for link := st.link(); link != 0; {
		v := viewAt(g.slabs, g.layouts, link-1)
		head := atomic.LoadUint64(&v.words[1])
		if link != st.link() {
			used = int(head >> usedShift)
		}
		if bits.OnesCount32(uint32(head&deletedMask)) < used {
			return true
		}
		link = v.link
	}
	return false
}

// Cache returns the cache that g reads.
func (g *Gatherer) Cache() *Cache { return g.c }
