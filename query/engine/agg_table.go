package engine

import (
	"slices"
	"strings"

	"tsdbd/internal/hll"
	"tsdbd/model"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
)

// aggTable holds the states of an aggregation: slots for each window of each
// group that has rows. Windows are numbered; they lie in pages of a power of
// two, so that neither many groups nor few windows far apart cost memory for
// what does not exist. A table belongs to one worker until it is merged.
type aggTable struct {
	slots    int
	shift    uint
	flat     []aggState // one window only: by group
	single   bool
	basePg   int64
	pages    int // pages that can exist; 0: unknown, use sparse
	dirs     [][][]aggState
	sparse   map[pageKey][]aggState
	byGroup  map[int32][]int64 // pages of sparse by group, once all are there
	strs     []string          // values of string selectors
	aux      [][]expr.Scalar   // other columns of chosen rows
	tallies  []tally
	picks    []pick
	sketches []hll.Sketch
	desc     bool               // of equal rows the last series is chosen, else the first
	auxKeys  []string           // series key of each, to break ties
	stop     *admission.Stopper // of who works with the table
	bytes    int64              // not yet accounted for

	lastG    int32 // page looked up last
	lastPg   int64
	lastPage []aggState
}

type pageKey struct {
	group int32
	page  int64
}

// pageWindows is the most windows of a page.
const pageWindows = 32

// maxPages bounds the length of a group's page directory.
const maxPages = 4096

// newAggTable sizes a table for windows numbered first..last.
func newAggTable(slots int, single bool, first, last int64) *aggTable {
	t := &aggTable{slots: slots, single: single, lastG: -1}
	if single {
		return t
	}
	for 1<<t.shift < pageWindows && last-first >= 1<<t.shift {
		t.shift++
	}
	t.basePg = first >> t.shift
	if n := last>>t.shift - t.basePg + 1; n > 0 && n <= maxPages {
		t.pages = int(n)
	} else {
		t.sparse = map[pageKey][]aggState{}
	}
	return t
}

// at returns the slots of a window of a group, creating them.
func (t *aggTable) at(g int32, window int64) []aggState {
	if t.single {
		if need := (int(g) + 1) * t.slots; need > len(t.flat) {
			old := cap(t.flat)
			t.flat = slices.Grow(t.flat, need-len(t.flat))[:need]
			t.bytes += int64(cap(t.flat)-old) * 32
		}
		return t.flat[int(g)*t.slots : (int(g)+1)*t.slots]
	}
	return t.from(g, window)[:t.slots]
}

// from returns the slots of a window of a group and those of the windows after
// it in the same page, creating them. There is more than one window.
func (t *aggTable) from(g int32, window int64) []aggState {
	pg := window >> t.shift
	if g != t.lastG || pg != t.lastPg {
		t.lastG, t.lastPg, t.lastPage = g, pg, t.page(g, pg)
	}
	return t.lastPage[int(window&(1<<t.shift-1))*t.slots:]
}

func (t *aggTable) page(g int32, pg int64) []aggState {
	size := t.slots << t.shift
	if t.sparse != nil || pg < t.basePg || pg >= t.basePg+int64(t.pages) {
		if t.sparse == nil {
			t.sparse = map[pageKey][]aggState{}
		}
		k := pageKey{g, pg}
		p := t.sparse[k]
		if p == nil {
			p = make([]aggState, size)
			t.sparse[k] = p
			t.bytes += int64(size)*32 + 48
		}
		return p
	}
	if int(g) >= len(t.dirs) {
		t.dirs = slices.Grow(t.dirs, int(g)+1-len(t.dirs))[:int(g)+1]
	}
	d := t.dirs[g]
	if d == nil {
		d = make([][]aggState, t.pages)
		t.dirs[g] = d
		t.bytes += int64(t.pages) * 24
	}
	p := d[pg-t.basePg]
	if p == nil {
		p = make([]aggState, size)
		d[pg-t.basePg] = p
		t.bytes += int64(size) * 32
	}
	return p
}

// each calls f for every window of a table that has states, in no order of
// groups but, unless the table is sparse, in order of windows.
func (t *aggTable) each(f func(g int32, window int64, st []aggState)) {
	emit := func(g int32, first int64, p []aggState) {
		for i := 0; i < len(p); i += t.slots {
			st := p[i : i+t.slots]
			for j := range st {
				if st[j].n != 0 {
					f(g, first+int64(i/t.slots), st)
					break
				}
			}
		}
	}
	if t.single {
		for i := 0; i < len(t.flat); i += t.slots {
			emit(int32(i/t.slots), 0, t.flat[i:i+t.slots])
		}
		return
	}
	for g, d := range t.dirs {
		for i, p := range d {
			if p != nil {
				emit(int32(g), (t.basePg+int64(i))<<t.shift, p)
			}
		}
	}
	for k, p := range t.sparse {
		emit(k.group, k.page<<t.shift, p)
	}
}

// group calls f for the windows of one group that have states, oldest first.
func (t *aggTable) group(g int32, f func(window int64, st []aggState)) {
	page := func(first int64, p []aggState) {
		for i := 0; i < len(p); i += t.slots {
			f(first+int64(i/t.slots), p[i:i+t.slots])
		}
	}
	if t.single {
		if lo := int(g) * t.slots; lo < len(t.flat) {
			f(0, t.flat[lo:lo+t.slots])
		}
		return
	}
	if t.sparse != nil && t.byGroup == nil {
		t.byGroup = map[int32][]int64{}
		for k := range t.sparse {
			t.byGroup[k.group] = append(t.byGroup[k.group], k.page)
		}
		for _, pages := range t.byGroup {
			slices.Sort(pages)
		}
	}
	rest := t.byGroup[g]
	if int(g) < len(t.dirs) {
		for len(rest) > 0 && rest[0] < t.basePg {
			page(rest[0]<<t.shift, t.sparse[pageKey{g, rest[0]}])
			rest = rest[1:]
		}
		for i, p := range t.dirs[g] {
			if p != nil {
				page((t.basePg+int64(i))<<t.shift, p)
			}
		}
	}
	for _, pg := range rest {
		page(pg<<t.shift, t.sparse[pageKey{g, pg}])
	}
}

// merge adds the states of o, which must not be used afterwards.
func (t *aggTable) merge(o *aggTable, slots []slot) {
	o.each(func(g int32, window int64, st []aggState) {
		dst := t.at(g, window)
		for i := range slots {
			if st[i].n != 0 {
				t.mergeState(&dst[i], &st[i], o, slots[i])
			}
		}
	})
}

func (t *aggTable) mergeState(d, s *aggState, o *aggTable, sl slot) {
	switch sl.kind {
	case slotCount:
		d.n += s.n
		return
	case slotSum:
		d.n += s.n
		if sl.typ == model.Float {
			d.addFloat(floatOf(s.a), floatOf(s.b))
		} else {
			d.a += s.a
		}
		return
	case slotSquare:
		d.n += s.n
		d.addFloat(floatOf(s.a), floatOf(s.b))
		return
	case slotTally:
		t.tallies = adopt(t.tallies, d, o.tallies[s.a], func(x, y *tally) {
			before := x.bytes()
			x.merge(t.stop, y)
			t.bytes += x.bytes() - before
		})
		d.n += s.n
		return
	case slotSketch:
		t.sketches = adopt(t.sketches, d, o.sketches[s.a], (*hll.Sketch).Merge)
		d.n += s.n
		return
	case slotTop, slotBottom, slotSample:
		t.picks = adopt(t.picks, d, o.picks[s.a], func(x, y *pick) { x.merge(t.stop, &sl, y) })
		d.n += s.n
		return
	}
	var str, key string
	if sl.typ == model.String {
		str = o.strs[s.a]
	}
	if s.b > 0 {
		key = o.auxKeys[s.b-1]
	}
	if !t.better(d, sl, s.t, s.a, str, key) {
		return
	}
	t.put(d, sl, s.t, s.a, str)
	if s.n == tied {
		d.n = tied
	}
	if s.b > 0 {
		t.putAux(d, o.aux[s.b-1], key)
	}
}

// adopt merges y into what state d has in list, or puts it there.
func adopt[T any](list []T, d *aggState, y T, merge func(x, y *T)) []T {
	if d.n > 0 {
		merge(&list[d.a], &y)
		return list
	}
	d.a = uint64(len(list))
	return append(list, y)
}

// better reports whether a value takes the place of the one in d: an earlier
// (later) one for first (last), a smaller (larger) for min (max), the
// earliest of equals; where first or last compete at one time the larger
// value wins, false before true for first, and the state is marked as tied.
// What is still equal is settled by the series key if rows carry one.
func (t *aggTable) better(d *aggState, sl slot, at int64, bits uint64, str, key string) bool {
	if d.n == 0 {
		return true
	}
	tie := func() bool { return d.b > 0 && key != t.auxKeys[d.b-1] && (key > t.auxKeys[d.b-1]) == t.desc }
	switch sl.kind {
	case slotFirst, slotLast:
		if at != d.t {
			return (at < d.t) == (sl.kind == slotFirst)
		}
		d.n = tied
		switch {
		case sl.typ == model.String:
			if old := t.strs[d.a]; old != str {
				return str > old
			}
			return tie()
		case bits == d.a:
			return tie()
		case sl.typ == model.Boolean && sl.kind == slotFirst:
			return bits < d.a
		}
		return wordLess(sl.typ, d.a, bits)
	case slotMin, slotMax:
		if wordLess(sl.typ, bits, d.a) {
			return sl.kind == slotMin
		}
		if wordLess(sl.typ, d.a, bits) {
			return sl.kind == slotMax
		}
		if at != d.t {
			return at < d.t
		}
		return tie()
	}
	return false
}

// own returns a copy of a text, which is accounted for: a part of a column's texts
// would keep all of them.
func (t *aggTable) own(text string) string {
	t.bytes += int64(len(text))
	return strings.Clone(text)
}

// put stores a chosen value.
func (t *aggTable) put(d *aggState, sl slot, at int64, bits uint64, str string) {
	if sl.typ == model.String {
		if d.n == 0 {
			bits = uint64(len(t.strs))
			t.strs = append(t.strs, str)
			t.bytes += int64(16 + len(str))
		} else {
			bits = d.a
			t.bytes += int64(len(str) - len(t.strs[bits]))
			t.strs[bits] = str
		}
	}
	if d.n != tied || d.t != at {
		d.n = 1
	}
	d.t, d.a = at, bits
}

// putAux stores the other columns of the chosen row.
func (t *aggTable) putAux(d *aggState, row []expr.Scalar, key string) {
	if d.b == 0 {
		t.aux = append(t.aux, row)
		t.auxKeys = append(t.auxKeys, key)
		d.b = uint64(len(t.aux))
		t.bytes += int64(40*len(row)+24) + auxText(row, key)
		return
	}
	t.bytes += auxText(row, key) - auxText(t.aux[d.b-1], t.auxKeys[d.b-1])
	t.aux[d.b-1], t.auxKeys[d.b-1] = row, key
}

// auxText returns the bytes of the texts that putAux stores.
func auxText(row []expr.Scalar, key string) int64 {
	n := len(key)
	for i := range row {
		n += len(row[i].Text)
	}
	return int64(n)
}
