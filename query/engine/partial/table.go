package partial

import (
	"iter"
	"slices"
	"strings"

	"tsdbd/internal/hll"
	"tsdbd/internal/quantiles"
	"tsdbd/model"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
)

// Table holds the states of an aggregation: one state per slot for each window of
// each group that has rows. Windows are numbered and lie in pages of a power of two.
// So neither many groups nor a few distant windows cost memory for windows without
// rows. A table belongs to one worker until it is merged.
type Table struct {
	slots     int
	shift     uint
	flat      []State // one window only: by group
	single    bool
	basePg    int64
	pages     int // pages that can exist; 0: unknown, use sparse
	dirs      [][][]State
	sparse    map[pageKey][]State
	ByGroup   map[int32][]int64 // pages of sparse by group, once all are there
	Texts     []string          // values of string selectors
	Aux       [][]expr.Scalar   // other columns of chosen rows
	Tallies   []tally
	Picks     []pick
	Sketches  []hll.Sketch
	quantiles []quantiles.Sketch
	runs      []valueRun         // of ranks
	room      int                // values of which the last block of runs has room
	parts     [][]uint64         // scratch of runsOf
	ranks     *Ranker            // nil until it is needed
	Desc      bool               // of equal rows the last series is chosen, else the first
	auxKeys   []string           // series key of each, to break ties
	steps     []run              // of an increase
	Stop      *admission.Stopper // of who works with the table
	Bytes     int64              // not yet accounted for

	slab []State // for the next pages
	made int     // pages of the last slab

	lastG    int32 // page looked up last
	lastPg   int64
	lastPage []State
}

type pageKey struct {
	group int32
	page  int64
}

// pageWindows is the most windows of a page.
const pageWindows = 32

// maxPages bounds the length of a group's page directory.
const maxPages = 4096

// NewTable sizes a table for windows numbered first..last.
func NewTable(slots int, single bool, first, last int64) *Table {
	t := &Table{slots: slots, single: single, lastG: -1}
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
		t.sparse = map[pageKey][]State{}
	}
	return t
}

// At returns the slots of a window of a group, creating them.
func (t *Table) At(g int32, window int64) []State {
	if t.single {
		if need := (int(g) + 1) * t.slots; need > len(t.flat) {
			old := cap(t.flat)
			t.flat = slices.Grow(t.flat, need-len(t.flat))[:need]
			t.Bytes += int64(cap(t.flat)-old) * 32
		}
		return t.flat[int(g)*t.slots : (int(g)+1)*t.slots]
	}
	return t.from(g, window)[:t.slots]
}

// from returns the slots of a window of a group and those of the windows after
// it in the same page, creating them. There is more than one window.
func (t *Table) from(g int32, window int64) []State {
	pg := window >> t.shift
	if g != t.lastG || pg != t.lastPg {
		t.lastG, t.lastPg, t.lastPage = g, pg, t.page(g, pg, nil)
	}
	return t.lastPage[int(window&(1<<t.shift-1))*t.slots:]
}

// follows reports whether the slots of a window lie behind those of the window before it.
func (t *Table) follows(window int64) bool { return window&(1<<t.shift-1) != 0 }

// page returns a page of a group. If there is none, made becomes it, or a new one if made
// is nil.
func (t *Table) page(g int32, pg int64, made []State) []State {
	if t.sparse != nil || pg < t.basePg || pg >= t.basePg+int64(t.pages) {
		if t.sparse == nil {
			t.sparse = map[pageKey][]State{}
		}
		k := pageKey{g, pg}
		p := t.sparse[k]
		if p == nil {
			p = t.orNew(made)
			t.sparse[k] = p
			t.Bytes += 48
		}
		return p
	}
	if int(g) >= len(t.dirs) {
		t.dirs = slices.Grow(t.dirs, int(g)+1-len(t.dirs))[:int(g)+1]
	}
	d := t.dirs[g]
	if d == nil {
		d = make([][]State, t.pages)
		t.dirs[g] = d
		t.Bytes += int64(t.pages) * 24
	}
	p := &d[pg-t.basePg]
	if *p == nil {
		*p = t.orNew(made)
	}
	return *p
}

// slabStates bounds the states of pages that are made together, 32 kB.
const slabStates = 1 << 10

// orNew returns a page, or one without values if it is nil. These are made several at a
// time: a page alone is mostly the price of allocating.
func (t *Table) orNew(page []State) []State {
	if page != nil {
		return page
	}
	size := t.slots << t.shift
	if len(t.slab) == 0 {
		t.made = max(1, min(2*t.made, slabStates/size))
		t.slab = make([]State, t.made*size)
		t.Bytes += int64(len(t.slab)) * 32
	}
	page, t.slab = t.slab[:size:size], t.slab[size:]
	return page
}

// each calls f for every page of a table, in no order of groups but, unless the table is
// sparse, in order of windows.
func (t *Table) each(f func(g int32, pg int64, p []State)) {
	for i := 0; i < len(t.flat); i += t.slots {
		f(int32(i/t.slots), 0, t.flat[i:i+t.slots])
	}
	for g, d := range t.dirs {
		for i, p := range d {
			if p != nil {
				f(int32(g), t.basePg+int64(i), p)
			}
		}
	}
	for k, p := range t.sparse {
		f(k.group, k.page, p)
	}
}

// Pages calls f for the pages of one group, oldest first, with the number of their first
// window. A page has the states of all slots for each window, which may have no values.
func (t *Table) Pages(g int32, f func(first int64, p []State)) {
	if t.single {
		if lo := int(g) * t.slots; lo < len(t.flat) {
			f(0, t.flat[lo:lo+t.slots])
		}
		return
	}
	if t.sparse != nil && t.ByGroup == nil {
		t.ByGroup = map[int32][]int64{}
		for k := range t.sparse {
			t.ByGroup[k.group] = append(t.ByGroup[k.group], k.page)
		}
		for _, pages := range t.ByGroup {
			slices.Sort(pages)
		}
	}
	rest := t.ByGroup[g]
	if int(g) < len(t.dirs) {
		for len(rest) > 0 && rest[0] < t.basePg {
			f(rest[0]<<t.shift, t.sparse[pageKey{g, rest[0]}])
			rest = rest[1:]
		}
		for i, p := range t.dirs[g] {
			if p != nil {
				f((t.basePg+int64(i))<<t.shift, p)
			}
		}
	}
	for _, pg := range rest {
		f(pg<<t.shift, t.sparse[pageKey{g, pg}])
	}
}

// Group calls f for the windows of the pages of one group, oldest first.
func (t *Table) Group(g int32, f func(window int64, st []State)) {
	t.Pages(g, func(first int64, p []State) {
		for i := 0; i < len(p); i += t.slots {
			f(first+int64(i/t.slots), p[i:i+t.slots])
		}
	})
}

// Windows is the states of two slots in the windows of a page.
type Windows struct {
	Page     []State
	Slots    int // states of a window
	Of, With int // the slots
}

// Present yields the states of the windows that have a value of the first slot.
func (w Windows) Present() iter.Seq2[*State, *State] {
	return func(yield func(of, with *State) bool) {
		for p := w.Page; len(p) >= w.Slots; p = p[w.Slots:] {
			if p[w.Of].N != 0 && !yield(&p[w.Of], &p[w.With]) {
				return
			}
		}
	}
}

// Merge adds the states of o, which must not be used afterwards.
func (t *Table) Merge(o *Table, slots []Slot) {
	// Pages whose states refer to nothing else of o go over as they are.
	whole := len(o.Texts)+len(o.Aux)+len(o.Tallies)+len(o.Picks)+len(o.Sketches)+len(o.quantiles)+len(o.runs) == 0
	o.each(func(g int32, pg int64, p []State) {
		if t.Stop.After(len(p) / t.slots) {
			return
		}
		var dst []State
		switch {
		case t.single:
			dst = t.At(g, 0)
		case whole:
			dst = t.page(g, pg, p)
		default:
			dst = t.page(g, pg, nil)
		}
		if &dst[0] == &p[0] {
			return
		}
		for i := range p {
			if p[i].N != 0 {
				t.MergeState(&dst[i], &p[i], o, &slots[i%t.slots])
			}
		}
	})
	t.steps = append(t.steps, o.steps...)
	t.Bytes += o.Bytes
}

// MergeState adds state s of table o to state d of t. It is the one merge of all
// kinds.
func (t *Table) MergeState(d, s *State, o *Table, sl *Slot) {
	switch sl.Kind {
	case Count:
		d.N += s.N
		return
	case Sum, Increase:
		d.N += s.N
		if sl.Type == model.Float {
			d.AddFloat(FloatOf(s.A), FloatOf(s.B))
		} else {
			d.AddWide(s.B, s.A)
		}
		return
	case Square:
		d.N += s.N
		d.AddFloat(FloatOf(s.A), FloatOf(s.B))
		return
	case Tally:
		t.Tallies = adopt(t.Tallies, d, o.Tallies[s.A], func(x, y *tally) {
			before := x.bytes()
			x.merge(t.Stop, y)
			t.Bytes += x.bytes() - before
		})
		d.N += s.N
		return
	case Sketch, Union:
		t.Sketches = adopt(t.Sketches, d, o.Sketches[s.A], (*hll.Sketch).Merge)
		d.N += s.N
		return
	case Ranks, Quantiles, QuantileUnion:
		t.mergeRuns(d, s, o)
		if s.B > 0 {
			t.mergeQuantiles(d, &o.quantiles[s.B-1])
		}
		return
	case Top, Bottom, Sample:
		t.Picks = adopt(t.Picks, d, o.Picks[s.A], func(x, y *pick) {
			before := x.bytes()
			x.merge(t.Stop, sl, y)
			t.Bytes += x.bytes() - before
		})
		d.N += s.N
		return
	}
	var str, key string
	if sl.Type == model.String {
		str = o.Texts[s.A]
	}
	if s.B > 0 {
		key = o.auxKeys[s.B-1]
	}
	if !t.better(d, sl, s.T, s.A, str, key) {
		return
	}
	t.put(d, sl, s.T, s.A, str)
	if s.N == Tied {
		d.N = Tied
	}
	if s.B > 0 {
		t.putAux(d, o.Aux[s.B-1], key)
	}
}

// ListBytes is the memory that it takes to order what a large state holds, or to choose
// from it, and to hand it out.
func (t *Table) ListBytes(st *State, sl *Slot) int64 {
	switch sl.Kind {
	case Tally:
		return 32 * int64(len(t.Tallies[st.A].Entries))
	case Top, Bottom, Sample:
		return 64 * int64(len(t.Picks[st.A].Rows))
	case Ranks:
		if st.B == 0 {
			return 8 * st.N
		}
		return t.quantiles[st.B-1].Bytes() // runs are added to it
	}
	return 0
}

// adopt merges y into what state d has in list, or puts it there.
func adopt[T any](list []T, d *State, y T, merge func(x, y *T)) []T {
	if d.N > 0 {
		merge(&list[d.A], &y)
		return list
	}
	d.A = uint64(len(list))
	return append(list, y)
}

// better reports whether a value takes the place of the one in d: an earlier
// (later) one for first (last), a smaller (larger) for min (max), the
// earliest of equals; where first or last compete at one time the larger
// value wins, false before true for first, and the state is marked as tied.
// What is still equal is settled by the series key if rows carry one.
func (t *Table) better(d *State, sl *Slot, at int64, bits uint64, str, key string) bool {
	if d.N == 0 {
		return true
	}
	tie := func() bool { return d.B > 0 && key != t.auxKeys[d.B-1] && (key > t.auxKeys[d.B-1]) == t.Desc }
	switch sl.Kind {
	case First, Last:
		if at != d.T {
			return (at < d.T) == (sl.Kind == First)
		}
		d.N = Tied
		switch {
		case sl.Type == model.String:
			if old := t.Texts[d.A]; old != str {
				return str > old
			}
			return tie()
		case bits == d.A:
			return tie()
		case sl.Type == model.Boolean && sl.Kind == First:
			return bits < d.A
		}
		return sl.Type.Less(d.A, bits)
	case Min, Max:
		if sl.Type.Less(bits, d.A) {
			return sl.Kind == Min
		}
		if sl.Type.Less(d.A, bits) {
			return sl.Kind == Max
		}
		if at != d.T {
			return at < d.T
		}
		return tie()
	}
	return false
}

// own returns a copy of a text, which is accounted for: a part of a column's texts
// would keep all of them.
func (t *Table) own(text string) string {
	t.Bytes += int64(len(text))
	return strings.Clone(text)
}

// put stores a chosen value.
func (t *Table) put(d *State, sl *Slot, at int64, bits uint64, str string) {
	if sl.Type == model.String {
		if d.N == 0 {
			bits = uint64(len(t.Texts))
			t.Texts = append(t.Texts, str)
			t.Bytes += int64(16 + len(str))
		} else {
			bits = d.A
			t.Bytes += int64(len(str) - len(t.Texts[bits]))
			t.Texts[bits] = str
		}
	}
	if d.N != Tied || d.T != at {
		d.N = 1
	}
	d.T, d.A = at, bits
}

// putAux stores the other columns of the chosen row.
func (t *Table) putAux(d *State, row []expr.Scalar, key string) {
	if d.B == 0 {
		t.Aux = append(t.Aux, row)
		t.auxKeys = append(t.auxKeys, key)
		d.B = uint64(len(t.Aux))
		t.Bytes += int64(40*len(row)+24) + auxText(row, key)
		return
	}
	t.Bytes += auxText(row, key) - auxText(t.Aux[d.B-1], t.auxKeys[d.B-1])
	t.Aux[d.B-1], t.auxKeys[d.B-1] = row, key
}

// auxText returns the bytes of the texts that putAux stores.
func auxText(row []expr.Scalar, key string) int64 {
	n := len(key)
	for i := range row {
		n += len(row[i].Text)
	}
	return int64(n)
}
