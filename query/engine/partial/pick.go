package partial

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
)

// pick keeps the n best rows of one window. It answers top, bottom and sample. With
// tags it keeps only the best row of each combination of tag values.
type pick struct {
	Rows   []PickRow        // the best, in order; while they are many, others as well, in no order
	combos map[string]int32 // row of a combination of tags
	bound  PickRow          // the n-th best of the rows so far; only a better one counts
	full   bool             // bound is set
	more   int64            // bytes of what rows have besides a number
}

// PickRow is a row with its rank; the smallest is the best. Of equal rank the
// earlier is better, then the one of the first series.
type PickRow struct {
	rank uint64
	T    int64
	Word uint64
	More *pickMore // nil of a number alone
}

// pickMore is what a row has besides a number.
type pickMore struct {
	text  string
	key   string // of the series
	order uint64 // place among the rows of subqueries, which have no key
	Aux   []expr.Scalar
}

// Text returns the value of a row of strings.
func (a *PickRow) Text() string {
	if a.More == nil {
		return ""
	}
	return a.More.text
}

// combo returns the combination of tags of a row as one text.
func (a *PickRow) combo(sl *Slot) string {
	if sl.Tags == 0 {
		return "" // top and bottom of fields alone: all rows are of one combination
	}
	return comboKey(a.More.Aux[:sl.Tags])
}

// bytes is the memory of what a row has besides a number, and of its place in combos.
func (a *PickRow) bytes(sl *Slot) int64 {
	m, n := a.More, int64(0)
	if m != nil {
		n = 64 + int64(len(m.text)) + 40*int64(len(m.Aux)) + auxText(m.Aux, m.key)
	}
	if sl.Unique {
		n += 64
	}
	if sl.Unique && sl.Tags > 0 {
		n += 24*int64(sl.Tags) + auxText(m.Aux[:sl.Tags], "")
	}
	return n
}

// compare returns which of two rows is better.
func (a *PickRow) compare(b *PickRow) int {
	if c := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.T, b.T)); c != 0 || a.More == nil || b.More == nil {
		return c
	}
	x, y := a.More, b.More
	return cmp.Or(cmp.Compare(x.order, y.order), compareSeries(x.key, y.key), slices.CompareFunc(x.Aux, y.Aux, compareScalars))
}

// compareSeries compares the tag sets of two series of a measurement.
func compareSeries(a, b string) int {
	if a == b {
		return 0
	}
	_, x := model.ParseSeriesKey(a, nil)
	_, y := model.ParseSeriesKey(b, nil)
	return cmp.Or(read.CompareTags(x, y), strings.Compare(a, b))
}

func compareScalars(a, b expr.Scalar) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Bits, b.Bits), strings.Compare(a.Text, b.Text))
}

// beaten reports whether a row cannot be one of the best, by rank and time alone.
func (p *pick) beaten(rank uint64, t int64) bool {
	return p.full && (rank > p.bound.rank || rank == p.bound.rank && t > p.bound.T)
}

// bytes is the memory of the rows.
func (p *pick) bytes() int64 { return 32*int64(cap(p.Rows)) + p.more }

// fewRows is the number of rows that are always kept in order.
const fewRows = 64

// add offers a row.
func (p *pick) add(stop *admission.Stopper, sl *Slot, r PickRow) {
	if sl.N <= fewRows && !sl.Unique {
		at, _ := slices.BinarySearchFunc(p.Rows, r, func(a, b PickRow) int { return a.compare(&b) })
		if len(p.Rows) < sl.N {
			p.Rows = append(p.Rows, r)
			p.more += r.bytes(sl)
		} else if at < len(p.Rows) {
			p.more += r.bytes(sl) - p.Rows[sl.N-1].bytes(sl)
		}
		if at < len(p.Rows) {
			copy(p.Rows[at+1:], p.Rows[at:])
			p.Rows[at] = r
		}
		if len(p.Rows) == sl.N {
			p.bound, p.full = p.Rows[sl.N-1], true
		}
		return
	}
	if sl.Unique {
		combo := r.combo(sl)
		if i, ok := p.combos[combo]; ok {
			if r.compare(&p.Rows[i]) < 0 {
				p.more += r.bytes(sl) - p.Rows[i].bytes(sl)
				p.Rows[i] = r
			}
			return
		}
		if p.combos == nil {
			p.combos = map[string]int32{}
		}
		p.combos[combo] = int32(len(p.Rows))
	}
	p.Rows = append(p.Rows, r)
	p.more += r.bytes(sl)
	if len(p.Rows)/2-4 >= sl.N {
		p.Prune(stop, sl)
	}
}

// Prune sorts the rows and leaves the n best.
func (p *pick) Prune(stop *admission.Stopper, sl *Slot) {
	p.Rows = SortRows(stop, p.Rows, func(a, b PickRow) int { return a.compare(&b) })
	if len(p.Rows) >= sl.N {
		for i := sl.N; i < len(p.Rows); i++ {
			p.more -= p.Rows[i].bytes(sl)
		}
		clear(p.Rows[sl.N:])
		p.Rows = p.Rows[:sl.N]
		p.bound, p.full = p.Rows[sl.N-1], true
	}
	if sl.Unique {
		clear(p.combos)
		for i := range p.Rows {
			p.combos[p.Rows[i].combo(sl)] = int32(i)
		}
	}
}

func comboKey(tags []expr.Scalar) string {
	var key []byte
	for _, s := range tags {
		key = fmt.Appendf(key, "%d/%d/%d/%s", s.Type, s.Bits, len(s.Text), s.Text)
	}
	return string(key)
}

// merge offers all rows of o.
func (p *pick) merge(stop *admission.Stopper, sl *Slot, o *pick) {
	for i := range o.Rows {
		if r := &o.Rows[i]; !p.beaten(r.rank, r.T) {
			p.add(stop, sl, *r)
		}
	}
}

// Ordered returns the bits of a number as a word that sorts as the number does.
func Ordered(t model.FieldType, word uint64) uint64 {
	switch {
	case t == model.Unsigned:
		return word
	case t == model.Integer:
		return word ^ 1<<63
	case FloatOf(word) == 0:
		return 1 << 63 // also of -0
	case word>>63 == 1:
		return ^word
	}
	return word | 1<<63
}

// mix is the finalizer of splitmix64: each bit of x decides about all of the
// result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// rank returns the rank of a row. That of a sample is a hash of series, time and
// the seed of the query: the sample does not depend on who reads the rows.
func (sl *Slot) rank(word, series uint64, t int64) uint64 {
	switch sl.Kind {
	case Top:
		return ^Ordered(sl.Type, word)
	case Bottom:
		return Ordered(sl.Type, word)
	}
	return mix(mix(sl.Seed^series) + bits.ReverseBytes64(mix(uint64(t))))
}

// pick offers rows [lo, hi) to a state.
func (w *Worker) pick(st *State, sl *Slot, v *column.Vector, lo, hi int, cols []column.Vector) bool {
	if validCount(v, lo, hi) == 0 {
		return false
	}
	p := w.t.pickOf(st)
	before := p.bytes()
	text := v.Type == model.String
	for i := lo; i < hi; i++ {
		if !v.IsValid(i) {
			continue
		}
		st.N++
		r := PickRow{T: w.Times[i]}
		if !text {
			r.Word = v.Word(i)
		}
		series := w.series
		if w.rd == nil { // of a subquery
			series = mix(w.Order + uint64(i))
		}
		if r.rank = sl.rank(r.Word, series, r.T); p.beaten(r.rank, r.T) {
			continue
		}
		if text || w.p.Aux > 0 {
			r.More = w.pickMore(v, i, cols)
		}
		p.add(w.t.Stop, sl, r)
	}
	w.t.Bytes += p.bytes() - before
	return true
}

// pickMore returns what a row is besides a number.
func (w *Worker) pickMore(v *column.Vector, row int, cols []column.Vector) *pickMore {
	m := &pickMore{}
	if v.Type == model.String {
		m.text = strings.Clone(v.Strings[row])
	}
	if w.rd == nil {
		m.order = w.Order + uint64(row)
	} else {
		m.key = w.key
	}
	if w.p.Aux > 0 {
		m.Aux = w.auxRow(row, cols)
	}
	return m
}

// pickOf returns the pick of a state, which it makes if there is none. It is valid
// until the next one is made.
func (t *Table) pickOf(st *State) *pick {
	if st.N == 0 {
		st.A = uint64(len(t.Picks))
		t.Picks = append(t.Picks, pick{})
		t.Bytes += 160
	}
	return &t.Picks[st.A]
}

// seriesHash is what a sample knows of a series.
func seriesHash(key string) uint64 { return xxhash.Sum64String(key) }
