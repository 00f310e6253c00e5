package cache

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// Gatherer reads series out of a Cache, reusing its memory. It belongs to one
// goroutine.
type Gatherer struct {
	c       *Cache
	picture *Picture // nil: of the cache as it grows
	slabs   [][]uint64
	strings [][]byte
	layouts []*point.Layout

	runs    []run
	refs    []rowRef
	next    int      // of refs, for Next
	scratch []rowRef // of sort
	links   []uint64
	pos     []int32        // per wanted field: value index in the layout in use, -1 if absent
	wide    map[string]int // place of each wanted field, where they are many
	mark    []bool         // by layout number: scratch of layoutsOf
	all     []column.Field // of Start
	some    []column.Field // of the rows of Next
	part    column.Rows
	nulls   [int(model.Boolean) + 1]column.Vector
}

type rowRef struct {
	time   int64
	words  *uint64 // first value word
	layout uint32
}

// NewGatherer returns a Gatherer over c as it grows.
func NewGatherer(c *Cache) *Gatherer { return &Gatherer{c: c} }

// keptRefs bounds the rows that fit into the memory which Release keeps.
const keptRefs = 4096

// refLists keeps the memory of Gatherers that were released.
var refLists sync.Pool // of *[]rowRef

// Release keeps the memory of a Gatherer for others. The Gatherer must not be used
// afterwards.
func (g *Gatherer) Release() {
	if n := cap(g.refs); n > 0 && n <= keptRefs {
		refs := g.refs[:n]
		clear(refs) // they point into the cache
		refLists.Put(&refs)
	}
	g.refs, g.scratch = nil, nil
}

// capture takes the series' state and what is needed to walk its rows.
func (g *Gatherer) capture(id model.SeriesID) (state, bool) {
	if p := g.picture; p != nil {
		g.slabs, g.strings, g.layouts = p.slabs, p.strings, p.layouts
		return p.state(id)
	}
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

// chunks begins a walk over the chunks of a captured series.
func (g *Gatherer) chunks(st *state) chunkWalk {
	return chunkWalk{slabs: g.slabs, layouts: g.layouts, picture: g.picture, before: st.link(), newest: int(st.used)}
}

// Range returns a range that holds the times of a series' rows and their
// number, deleted ones included, and false if it has none.
func (g *Gatherer) Range(id model.SeriesID) (r model.TimeRange, rows int, ok bool) {
	st, ok := g.capture(id)
	return model.TimeRange{Min: st.min, Max: st.max}, int(st.rows), ok
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
	seen := 0
	for w := g.chunks(&st); len(counts) > 0 && w.next(); seen += w.used {
		for len(counts) > 0 && counts[0] <= seen+w.used {
			if counts[0] >= int(st.rows) {
				return dst
			}
			dst = append(dst, int64(w.row(w.used + seen - counts[0])[0]))
			counts = counts[1:]
		}
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
	if g.refs == nil {
		if kept, ok := refLists.Get().(*[]rowRef); ok {
			g.refs = (*kept)[:0]
		}
	}
	for w := g.chunks(&st); w.next(); {
		n := w.used
		if st.flags&unsorted == 0 && n > 0 && int64(w.row(0)[0]) > r.Max {
			n = 0 // all rows are newer
		}
		for i := n - 1; i >= 0; i-- {
			row := w.row(i)
			t := int64(row[0])
			if t >= r.Min && t <= r.Max && w.head>>i&1 == 0 {
				// A row has at least one value, so row[1] exists.
				g.refs = append(g.refs, rowRef{t, &row[1], w.layout})
			}
		}
		if st.flags&unsorted == 0 && w.used > 0 && int64(w.row(0)[0]) < r.Min {
			break // older rows are older still
		}
	}
	slices.Reverse(g.refs)
	return st, len(g.refs) > 0
}

// union appends the fields of rows to dst and sorts them by key. Of two types
// of a key, that of the last row counts.
func (g *Gatherer) union(dst []column.Field, refs []rowRef) []column.Field {
	g.layoutsOf(refs, func(l *point.Layout) { dst = append(dst, l.Fields...) })
	return column.UnionFields(dst)
}

// shared is union of those fields that are among all.
func (g *Gatherer) shared(dst []column.Field, refs []rowRef, all []column.Field) []column.Field {
	g.layoutsOf(refs, func(l *point.Layout) {
		for _, f := range l.Fields {
			if i, ok := column.FindField(all, f.Key); ok && all[i].Type == f.Type {
				dst = append(dst, f)
			}
		}
	})
	return column.UnionFields(dst)
}

// layoutsOf calls fn with each layout of rows once, that of the last row first.
func (g *Gatherer) layoutsOf(refs []rowRef, fn func(*point.Layout)) {
	if len(g.mark) < len(g.layouts) {
		g.mark = make([]bool, len(g.layouts))
	}
	seen := uint32(math.MaxUint32)
	for i := len(refs) - 1; i >= 0; i-- {
		if l := refs[i].layout; l != seen {
			seen = l
			if !g.mark[l] {
				g.mark[l] = true
				fn(g.layouts[l])
			}
		}
	}
	for i := range refs {
		g.mark[refs[i].layout] = false
	}
}

// Start begins to gather all rows of a series, which Next hands out in parts:
// together and with a column for every field they may be many times what the
// cache holds. It returns the fields, sorted by key and valid until the next
// call, and false if the series has no living row.
func (g *Gatherer) Start(id model.SeriesID) ([]column.Field, bool) {
	st, ok := g.collect(id, model.TimeRange{Min: math.MinInt64, Max: math.MaxInt64})
	g.next = 0
	if !ok {
		return nil, false
	}
	// By age first: of a field's types the newest row's counts.
	g.all = g.union(g.all[:0], g.refs)
	g.sort(st)
	return g.all, true
}

// Next fills dst with the next n rows of the series that Start began: a
// column per field. Columns are valid until the next call and not to be
// written to; those without a value share their memory. It returns false at
// the end.
func (g *Gatherer) Next(dst *column.Rows, n int) bool {
	for g.next < len(g.refs) {
		lo, rows := g.next, 0
		for g.next < len(g.refs) && (rows < n || g.refs[g.next].time == g.refs[g.next-1].time) {
			if g.next == lo || g.refs[g.next].time != g.refs[g.next-1].time {
				rows++
			}
			g.next++
		}
		refs := g.refs[lo:g.next]
		if len(refs) == len(g.refs) {
			g.some = append(g.some[:0], g.all...)
		} else {
			g.some = g.shared(g.some[:0], refs, g.all)
		}
		g.transpose(&g.part, g.some, refs)
		if len(g.part.Times) > 0 {
			g.widen(dst)
			return true
		}
	}
	return false
}

// widen makes dst the present part, with a column for each of all fields.
func (g *Gatherer) widen(dst *column.Rows) {
	dst.Times, dst.Cols = g.part.Times, dst.Cols[:0]
	if len(g.some) == len(g.all) {
		dst.Cols = append(dst.Cols, g.part.Cols...)
		return
	}
	for t := range g.nulls {
		g.nulls[t].Type = model.Unknown // to be made when needed
	}
	k := 0
	for _, f := range g.all {
		if k < len(g.some) && g.some[k].Key == f.Key {
			dst.Cols = append(dst.Cols, g.part.Cols[k])
			k++
			continue
		}
		null := &g.nulls[f.Type]
		if null.Type == model.Unknown {
			null.Nulls(f.Type, len(dst.Times))
		}
		dst.Cols = append(dst.Cols, *null)
	}
}

// Cuts appends to dst, ascending, times that cut the rows of a series in r into
// parts of about n rows each.
func (g *Gatherer) Cuts(id model.SeriesID, r model.TimeRange, n int, dst []int64) []int64 {
	st, ok := g.collect(id, r)
	if !ok {
		return dst
	}
	g.sort(st)
	from := g.refs[0].time
	for i := n; i < len(g.refs); i += n {
		if t := g.refs[i].time; t > from {
			dst, from = append(dst, t), t
		}
	}
	return dst
}

// Gather fills dst with the series' living rows in r: the wanted fields'
// values, ascending unique times, newest value per field. Rows that have none
// of the fields are left out. It returns false if there are no rows. String
// values share the cache's memory and stay valid.
func (g *Gatherer) Gather(dst *column.Rows, id model.SeriesID, fields []column.Field, r model.TimeRange) bool {
	if g.gatherRuns(dst, id, fields, r) {
		return len(dst.Times) > 0
	}
	st, ok := g.collect(id, r)
	if !ok {
		dst.Times = dst.Times[:0]
		return false
	}
	g.sort(st)
	g.transpose(dst, fields, g.refs)
	return len(dst.Times) > 0
}

// sort brings the collected rows into the order of time, then of age.
func (g *Gatherer) sort(st state) {
	if st.flags&unsorted != 0 {
		g.scratch = inOrder(g.refs, g.scratch)
	}
}

// reset gives dst no rows and a column for each of the fields.
func (g *Gatherer) reset(dst *column.Rows, fields []column.Field) {
	dst.Times = dst.Times[:0]
	for len(dst.Cols) < len(fields) {
		dst.Cols = append(dst.Cols, column.Vector{})
	}
	dst.Cols = dst.Cols[:len(fields)]
	for i := range fields {
		dst.Cols[i].Reset(fields[i].Type)
	}
	clear(g.wide)
}

// transpose turns rows, sorted by time and then by age, into columns.
func (g *Gatherer) transpose(dst *column.Rows, fields []column.Field, refs []rowRef) {
	g.reset(dst, fields)
	if uniform(refs) {
		g.transposeUniform(dst, fields, refs)
	} else {
		g.transposeMixed(dst, fields, refs)
	}
}

// uniform reports whether sorted rows have one layout and unique times.
func uniform(refs []rowRef) bool {
	for i := 1; i < len(refs); i++ {
		if refs[i].layout != refs[0].layout || refs[i].time == refs[i-1].time {
			return false
		}
	}
	return true
}

// wideFrom is how many fields are found by a map.
const wideFrom = 64

// place maps the wanted fields to value positions of a layout and reports
// whether there is any.
func (g *Gatherer) place(layout uint32, fields []column.Field) bool {
	g.pos = g.pos[:0]
	found := false
	if len(fields) >= wideFrom {
		if len(g.wide) == 0 {
			if g.wide == nil {
				g.wide = make(map[string]int)
			}
			for i, f := range fields {
				g.wide[f.Key] = i
			}
		}
		for range fields {
			g.pos = append(g.pos, -1)
		}
		for i, lf := range g.layouts[layout].Fields {
			if c, ok := g.wide[lf.Key]; ok && fields[c].Type == lf.Type {
				g.pos[c], found = int32(i), true
			}
		}
		return found
	}
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
func (g *Gatherer) transposeUniform(dst *column.Rows, fields []column.Field, refs []rowRef) {
	n := len(refs)
	if n == 0 || !g.place(refs[0].layout, fields) {
		return
	}
	dst.Times = slices.Grow(dst.Times, n)[:n]
	for i := range refs {
		dst.Times[i] = refs[i].time
	}
	for c := range fields {
		v, p := &dst.Cols[c], g.pos[c]
		if p < 0 {
			v.Nulls(fields[c].Type, n)
			continue
		}
		v.Resize(n)
		switch v.Type {
		case model.Boolean:
			for i := range refs {
				v.Bools[i] = word(refs[i].words, p) != 0
			}
		case model.String:
			for i := range refs {
				v.Strings[i] = g.stringAt(word(refs[i].words, p))
			}
		default:
			words := wordsOf(v)
			for i := range refs {
				words[i] = word(refs[i].words, p)
			}
		}
	}
}

// wordsOf views a column of numbers as the words that the cache has of them.
func wordsOf(v *column.Vector) []uint64 {
	switch v.Type {
	case model.Float:
		return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v.Floats))), len(v.Floats))
	case model.Integer:
		return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v.Ints))), len(v.Ints))
	}
	return v.Uints
}

// transposeMixed handles rows of several layouts and equal times: the refs are
// sorted by time, then by age.
func (g *Gatherer) transposeMixed(dst *column.Rows, fields []column.Field, refs []rowRef) {
	layout, any := uint32(math.MaxUint32), false
	for i := 0; i < len(refs); {
		j := i + 1
		for j < len(refs) && refs[j].time == refs[i].time {
			j++
		}
		row := len(dst.Times)
		rowOpen := false
		for k := j - 1; k >= i; k-- { // newest first; a value once set stays
			ref := &refs[k]
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
	case model.Boolean:
		v.Bools[row] = w != 0
	case model.String:
		v.Strings[row] = g.stringAt(w)
	default:
		wordsOf(v)[row] = w
	}
}

// HasRows reports whether the series has a living row.
func (g *Gatherer) HasRows(id model.SeriesID) bool {
	st, ok := g.capture(id)
	if !ok {
		return false
	}
	for w := g.chunks(&st); w.next(); {
		if bits.OnesCount32(uint32(w.head&deletedMask)) < w.used {
			return true
		}
	}
	return false
}
