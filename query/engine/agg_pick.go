package engine

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

// pick is the n best rows of one window. It answers top, bottom and sample. With
// tags it keeps the best row of each combination of them.
type pick struct {
	rows   []pickRow        // the best, in order; while they are many, others as well, in no order
	combos map[string]int32 // row of a combination of tags
	bound  pickRow          // the n-th best of the rows so far; only a better one counts
	full   bool             // bound is set
}

// pickRow is a row with its rank; the smallest is the best. Of equal rank the
// earlier is better, then the one of the first series.
type pickRow struct {
	rank uint64
	t    int64
	word uint64
	more *pickMore // nil of a number alone
}

// pickMore is what a row has besides a number.
type pickMore struct {
	text  string
	key   string // of the series
	order uint64 // place among the rows of subqueries, which have no key
	aux   []expr.Scalar
}

// text returns the value of a row of strings.
func (a *pickRow) text() string {
	if a.more == nil {
		return ""
	}
	return a.more.text
}

// compare returns which of two rows is better.
func (a *pickRow) compare(b *pickRow) int {
	if c := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.t, b.t)); c != 0 || a.more == nil || b.more == nil {
		return c
	}
	x, y := a.more, b.more
	return cmp.Or(cmp.Compare(x.order, y.order), compareSeries(x.key, y.key), slices.CompareFunc(x.aux, y.aux, compareScalars))
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
	return p.full && (rank > p.bound.rank || rank == p.bound.rank && t > p.bound.t)
}

// fewRows is the number of rows that are always kept in order.
const fewRows = 64

// add offers a row.
func (p *pick) add(stop *admission.Stopper, sl *slot, r pickRow) {
	if sl.n <= fewRows && !sl.unique {
		at, _ := slices.BinarySearchFunc(p.rows, r, func(a, b pickRow) int { return a.compare(&b) })
		if len(p.rows) < sl.n {
			p.rows = append(p.rows, r)
		}
		if at < len(p.rows) {
			copy(p.rows[at+1:], p.rows[at:])
			p.rows[at] = r
		}
		if len(p.rows) == sl.n {
			p.bound, p.full = p.rows[sl.n-1], true
		}
		return
	}
	if sl.unique {
		combo := comboKey(r.more.aux[:sl.tags])
		if i, ok := p.combos[combo]; ok {
			if r.compare(&p.rows[i]) < 0 {
				p.rows[i] = r
			}
			return
		}
		if p.combos == nil {
			p.combos = map[string]int32{}
		}
		p.combos[combo] = int32(len(p.rows))
	}
	p.rows = append(p.rows, r)
	if len(p.rows) >= 2*sl.n+8 {
		p.prune(stop, sl)
	}
}

// prune sorts the rows and leaves the n best.
func (p *pick) prune(stop *admission.Stopper, sl *slot) {
	p.rows = sortRows(stop, p.rows, func(a, b pickRow) int { return a.compare(&b) })
	if len(p.rows) < sl.n {
		return
	}
	clear(p.rows[sl.n:])
	p.rows = p.rows[:sl.n]
	p.bound, p.full = p.rows[sl.n-1], true
	if sl.unique {
		clear(p.combos)
		for i := range p.rows {
			p.combos[comboKey(p.rows[i].more.aux[:sl.tags])] = int32(i)
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
func (p *pick) merge(stop *admission.Stopper, sl *slot, o *pick) {
	for i := range o.rows {
		if r := &o.rows[i]; !p.beaten(r.rank, r.t) {
			p.add(stop, sl, *r)
		}
	}
}

// ordered returns the bits of a number as a word that sorts as the number does.
func ordered(t model.FieldType, word uint64) uint64 {
	switch {
	case t == model.Unsigned:
		return word
	case t == model.Integer:
		return word ^ 1<<63
	case floatOf(word) == 0:
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
func (sl *slot) rank(word, series uint64, t int64) uint64 {
	switch sl.kind {
	case slotTop:
		return ^ordered(sl.typ, word)
	case slotBottom:
		return ordered(sl.typ, word)
	}
	return mix(mix(sl.seed^series) + bits.ReverseBytes64(mix(uint64(t))))
}

// pick offers rows [lo, hi) to a state.
func (w *aggWorker) pick(st *aggState, sl *slot, v *column.Vector, lo, hi int, cols []column.Vector) bool {
	if validCount(v, lo, hi) == 0 {
		return false
	}
	p := w.t.pickOf(st)
	text := v.Type == model.String
	for i := lo; i < hi; i++ {
		if !v.IsValid(i) {
			continue
		}
		st.n++
		r := pickRow{t: w.times[i]}
		if !text {
			r.word = word(v, i)
		}
		series := w.series
		if w.rd == nil { // of a subquery
			series = mix(w.order + uint64(i))
		}
		if r.rank = sl.rank(r.word, series, r.t); p.beaten(r.rank, r.t) {
			continue
		}
		w.t.bytes += 32
		if text || w.p.aux > 0 {
			r.more = w.pickMore(v, i, cols)
		}
		p.add(w.t.stop, sl, r)
	}
	return true
}

// pickMore returns what a row is besides a number.
func (w *aggWorker) pickMore(v *column.Vector, row int, cols []column.Vector) *pickMore {
	m := &pickMore{}
	if v.Type == model.String {
		m.text = strings.Clone(v.Strings[row])
	}
	if w.rd == nil {
		m.order = w.order + uint64(row)
	} else {
		m.key = w.key
	}
	if w.p.aux > 0 {
		m.aux = w.auxRow(row, cols)
	}
	w.t.bytes += 64 + int64(len(m.text)) + 40*int64(len(m.aux)) + auxText(m.aux, m.key)
	return m
}

// pickOf returns the pick of a state, which it makes if there is none. It is valid
// until the next one is made.
func (t *aggTable) pickOf(st *aggState) *pick {
	if st.n == 0 {
		st.a = uint64(len(t.picks))
		t.picks = append(t.picks, pick{})
		t.bytes += 160
	}
	return &t.picks[st.a]
}

// seriesHash is what a sample knows of a series.
func seriesHash(key string) uint64 { return xxhash.Sum64String(key) }
