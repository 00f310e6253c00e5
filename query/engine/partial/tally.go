package partial

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
)

// tally counts the distinct values of one window. It answers distinct, mode and
// count(distinct).
type tally struct {
	typ     model.FieldType
	Entries []tallyEntry
	texts   []string // the values, if they are strings
	index   []int32  // hash table of places in entries, plus one; nil while these are few
	last    int32    // place that was found last: values often repeat
}

// tallyEntry is one value: its bits, how often it came, and when first and last.
type tallyEntry struct {
	word        uint64 // of a string its hash
	n           int64
	First, Last int64 // 0 unless the slot is timed
}

// unindexed is the number of values that are searched one by one.
const unindexed = 16

// add counts a value. own copies a string that is new.
func (t *tally) add(word uint64, text string, n, first, last int64, own func(string) string) {
	switch {
	case t.typ == model.String:
		word = xxhash.Sum64String(text)
	case t.typ == model.Float && FloatOf(word) == 0:
		word = 0 // -0 is the same value
	}
	i := t.find(word, text)
	if i < 0 {
		t.Entries = append(t.Entries, tallyEntry{word, n, first, last})
		if t.typ == model.String {
			t.texts = append(t.texts, own(text))
		}
		t.last = int32(len(t.Entries) - 1)
		t.reindex()
		return
	}
	t.last = i
	e := &t.Entries[i]
	e.n += n
	e.First, e.Last = min(e.First, first), max(e.Last, last)
}

// find returns the place of a value, or -1.
func (t *tally) find(word uint64, text string) int32 {
	is := func(i int32) bool { return t.Entries[i].word == word && (t.typ != model.String || t.texts[i] == text) }
	n := int32(len(t.Entries))
	switch {
	case n > 0 && is(t.last):
		return t.last
	case t.index == nil:
		for i := range n {
			if is(i) {
				return i
			}
		}
		return -1
	}
	mask := uint64(len(t.index) - 1)
	for p := mix(word) & mask; t.index[p] != 0; p = (p + 1) & mask {
		if i := t.index[p] - 1; is(i) {
			return i
		}
	}
	return -1
}

// reindex puts the newest value into the index, which grows to stay half empty.
func (t *tally) reindex() {
	from, n := len(t.Entries)-1, len(t.Entries)
	if n <= unindexed {
		return
	}
	if 2*n > len(t.index) {
		t.index, from = make([]int32, 4<<bits.Len(uint(n-1))), 0
	}
	mask := uint64(len(t.index) - 1)
	for i := from; i < n; i++ {
		p := mix(t.Entries[i].word) & mask
		for t.index[p] != 0 {
			p = (p + 1) & mask
		}
		t.index[p] = int32(i + 1)
	}
}

// text returns the string of an entry, "" of numbers.
func (t *tally) text(i int32) string {
	if t.typ == model.String {
		return t.texts[i]
	}
	return ""
}

// bytes is the memory of the entries, without the bytes of strings.
func (t *tally) bytes() int64 {
	return int64(32*cap(t.Entries) + 16*cap(t.texts) + 4*len(t.index))
}

// merge adds the values of o.
func (t *tally) merge(stop *admission.Stopper, o *tally) {
	for i := range o.Entries {
		if stop.After(1) {
			break
		}
		e := &o.Entries[i]
		t.add(e.word, o.text(int32(i)), e.n, e.First, e.Last, func(text string) string { return text })
	}
}

// Order returns the entries in order of compare.
func (t *tally) Order(stop *admission.Stopper, compare func(a, b int32) int) []int32 {
	all := make([]int32, len(t.Entries))
	for i := range all {
		all[i] = int32(i)
	}
	return SortRows(stop, all, compare)
}

// Compare compares the values of two entries.
func (t *tally) Compare(a, b int32) int {
	x, y := t.Entries[a].word, t.Entries[b].word
	switch t.typ {
	case model.Float:
		return cmp.Compare(FloatOf(x), FloatOf(y))
	case model.Integer:
		return cmp.Compare(int64(x), int64(y))
	case model.String:
		return cmp.Compare(t.texts[a], t.texts[b])
	}
	return cmp.Compare(x, y)
}

// AppendTo appends the value of an entry.
func (t *tally) AppendTo(v *column.Vector, i int32) {
	expr.AppendScalar(v, expr.Scalar{Type: t.typ, Bits: t.Entries[i].word, Text: t.text(i)})
}

// Mode returns the most frequent value. Among values of one frequency above one
// a larger value wins if it comes before the last of the smaller one, as in
// InfluxDB. If no value comes twice it is the smallest. Of booleans it is true
// when in doubt.
func (t *tally) Mode(stop *admission.Stopper) int32 {
	var often []int32 // the values of the greatest frequency
	most := int64(0)
	for i := range t.Entries {
		n := t.Entries[i].n
		if n > most {
			most, often = n, often[:0]
		}
		if n == most {
			often = append(often, int32(i))
		}
	}
	if most == 1 && t.typ != model.Boolean {
		return slices.MinFunc(often, t.Compare)
	}
	often = SortRows(stop, often, t.Compare)
	best := often[0]
	for _, i := range often[1:] {
		if t.typ == model.Boolean || t.Entries[i].First <= t.Entries[best].Last {
			best = i
		}
	}
	return best
}

// tally counts the values of rows [lo, hi) in a state.
func (w *Worker) tally(st *State, sl *Slot, v *column.Vector, lo, hi int) bool {
	var t *tally
	before := int64(0)
	for i := lo; i < hi; i++ {
		if !v.IsValid(i) {
			continue
		}
		if t == nil {
			t = w.t.tallyOf(st, sl)
			before = t.bytes()
		}
		var at int64
		if sl.Timed {
			at = w.Times[i]
		}
		st.N++
		if sl.Type == model.String {
			t.add(0, v.Strings[i], 1, at, at, w.t.own)
		} else {
			t.add(v.Word(i), "", 1, at, at, nil)
		}
	}
	if t == nil {
		return false
	}
	w.t.Bytes += t.bytes() - before
	return true
}

// tallyOf returns the tally of a state, which it makes if there is none. It is
// valid until the next one is made.
func (t *Table) tallyOf(st *State, sl *Slot) *tally {
	if st.N == 0 {
		st.A = uint64(len(t.Tallies))
		t.Tallies = append(t.Tallies, tally{typ: sl.Type})
		t.Bytes += 160
	}
	return &t.Tallies[st.A]
}
