package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/expr"
)

// selectors are the functions that choose rows. One that stands alone shows the
// other columns of its rows as well.
var selectors = map[string]function{
	"min":        {check: oneField, takes: numberOrBoolean, selector: true, filled: true, partial: &folding{slots: []slotKind{slotMin}}},
	"max":        {check: oneField, takes: numberOrBoolean, selector: true, filled: true, partial: &folding{slots: []slotKind{slotMax}}},
	"first":      {check: oneField, takes: anyType, selector: true, filled: true, partial: &folding{slots: []slotKind{slotFirst}}},
	"last":       {check: oneField, takes: anyType, selector: true, filled: true, partial: &folding{slots: []slotKind{slotLast}}},
	"percentile": {check: percentileArguments, selector: true, filled: true, tagOrder: true, rows: percentiles},
	"sample":     {check: sampleArguments, takes: anyType, selector: true, partial: &folding{slots: []slotKind{slotSample}, list: picked}},
	"top":        {check: topArguments, refused: topRefused("max"), selector: true, partial: &folding{slots: []slotKind{slotTop}, list: picked}},
	"bottom":     {check: topArguments, refused: topRefused("min"), selector: true, partial: &folding{slots: []slotKind{slotBottom}, list: picked}},
}

// topRefused names what InfluxDB runs for top or bottom with tags: the greatest
// or smallest value of each combination of them first.
func topRefused(reduced string) func(*influxql.Call, model.FieldType) (string, string) {
	return func(e *influxql.Call, t model.FieldType) (string, string) {
		switch {
		case len(e.Args) <= 2:
			return e.Name, "Interrupt"
		case t == model.Boolean:
			return e.Name, "ReduceBoolean"
		}
		return reduced, "Interrupt"
	}
}

// picked lists the rows of a pick in the level's direction. Those of one time
// stand in order of their rank, those of a sample of their value.
func picked(x *callContext, t *aggTable, sl *slot, st *aggState, _ int64, out *cells) {
	p := &t.picks[st.a]
	p.prune(x.stop, sl)
	rows := sortRows(x.stop, slices.Clone(p.rows), func(a, b pickRow) int {
		byTime := cmp.Compare(a.t, b.t)
		if !x.asc {
			byTime = -byTime
		}
		if byTime == 0 && sl.kind == slotSample {
			return cmp.Or(cmp.Compare(ordered(sl.typ, a.word), ordered(sl.typ, b.word)), strings.Compare(a.text(), b.text()))
		}
		return byTime
	})
	if !x.asc {
		slices.Reverse(rows) // slotCells turns all cells around
	}
	for i := range rows {
		r := &rows[i]
		out.times = append(out.times, r.t)
		expr.AppendScalar(&out.v, expr.Scalar{Type: sl.typ, Bits: r.word, Text: r.text()})
		for k := range out.aux {
			if out.aux[k].Type != model.Unknown {
				expr.AppendScalar(&out.aux[k], r.more.aux[sl.tags+k])
			}
		}
	}
}
