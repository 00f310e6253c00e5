package build

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

const (
	// batchCells and batchSeries bound a batch. A run of more cells is one alone.
	batchCells  = 1 << 15
	batchSeries = 1 << 10
	// batches is how many there are: one is filled, one indexed, and one written, while
	// one waits.
	batches = 4
)

// batch is rows on their way from the caller to the files. It owns all but the keys and
// the fields.
type batch struct {
	series []part
	runs   []column.Rows
	cells  int

	keys []string         // of the series that begin
	ids  []model.SeriesID // of them

	cols   []column.Vector
	times  []int64
	floats []float64
	ints   []int64
	uints  []uint64
	bools  []bool
	texts  []string
	valid  []uint64
}

// part is a series of a batch, or a part of it.
type part struct {
	key         string
	measurement string
	id          model.SeriesID
	fields      []column.Field
	types       []model.FieldType
	begins      bool // its first rows are here
	ends        bool // its last rows are here
	runs        int
}

// room reports whether so many more cells, and a series, fit.
func (p *batch) room(cells int) bool {
	return len(p.series) == 0 || len(p.series) < batchSeries && p.cells+cells <= batchCells
}

// add copies rows of the last series: of each column that from names.
func (p *batch) add(rows *column.Rows, from []int) {
	n := rows.Len()
	first := len(p.cols)
	if cap(p.cols)-first < len(from) {
		p.cols, first = make([]column.Vector, 0, max(batchSeries, len(from))), 0
	}
	for _, i := range from {
		p.cols = append(p.cols, p.column(&rows.Cols[i], n))
	}
	p.runs = append(p.runs, column.Rows{Times: keep(&p.times, rows.Times), Cols: p.cols[first:len(p.cols):len(p.cols)]})
	p.series[len(p.series)-1].runs++
	p.cells += n * max(len(from), 1)
}

// column copies a column of n rows.
func (p *batch) column(v *column.Vector, n int) column.Vector {
	out := column.Vector{Type: v.Type}
	switch v.Type {
	case model.Float:
		out.Floats = keep(&p.floats, v.Floats[:n])
	case model.Integer:
		out.Ints = keep(&p.ints, v.Ints[:n])
	case model.Unsigned:
		out.Uints = keep(&p.uints, v.Uints[:n])
	case model.Boolean:
		out.Bools = keep(&p.bools, v.Bools[:n])
	case model.String:
		out.Strings = keep(&p.texts, v.Strings[:n])
		out.OwnStrings(0)
	}
	if v.Valid != nil {
		out.Valid = keep(&p.valid, v.Valid[:(n+63)/64])
	}
	return out
}

// keep copies list to the memory of an arena, or to a new one if that has no room.
func keep[T any](arena *[]T, list []T) []T {
	a := *arena
	if cap(a)-len(a) < len(list) {
		a = make([]T, 0, max(batchCells, len(list)))
	}
	n := len(a)
	a = append(a, list...)
	*arena = a
	return a[n:len(a):len(a)]
}

// reset empties the batch. It gives up memory that a run has made too large.
func (p *batch) reset() {
	clear(p.series)
	clear(p.runs)
	clear(p.keys)
	clear(p.texts)
	*p = batch{
		series: p.series[:0], runs: p.runs[:0], keys: p.keys[:0], ids: p.ids[:0], cols: empty(p.cols), times: empty(p.times),
		floats: empty(p.floats), ints: empty(p.ints), uints: empty(p.uints), bools: empty(p.bools), texts: empty(p.texts), valid: empty(p.valid),
	}
}

func empty[T any](list []T) []T {
	if cap(list) > 2*batchCells {
		return nil
	}
	return list[:0]
}
