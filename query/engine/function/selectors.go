package function

import (
	"cmp"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/engine/partial"
	"tsdbd/query/expr"
)

// selectors are the functions that choose rows. If a selector is the only call, the
// answer also has the other columns of its rows.
var selectors = map[string]Function{
	"min":        {Check: oneField, takes: numberOrBoolean, Selector: true, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Min}}},
	"max":        {Check: oneField, takes: numberOrBoolean, Selector: true, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Max}}},
	"first":      {Check: oneField, takes: anyType, Selector: true, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.First}}},
	"last":       {Check: oneField, takes: anyType, Selector: true, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Last}}},
	"percentile": {Check: arguments(2, 2, percent, field), Selector: true, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Ranks}, List: percentileOf}, TagOrder: true, Rows: percentiles},
	"sample":     {Check: arguments(2, 2, integer(1, 1, "expected integer argument in sample()", "sample window must be greater than 1, got {got}"), field), takes: anyType, Selector: true, Partial: &folding{Slots: []partial.Kind{partial.Sample}, List: picked}},
	"top":        {Check: topArguments, refused: topRefused("max"), Selector: true, Partial: &folding{Slots: []partial.Kind{partial.Top}, List: picked}},
	"bottom":     {Check: topArguments, refused: topRefused("min"), Selector: true, Partial: &folding{Slots: []partial.Kind{partial.Bottom}, List: picked}},
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

// percentileOf gives the value of the nearest rank, and where the whole range is one window
// the time of its row.
func percentileOf(x *Context, t *partial.Table, sl *partial.Slot, st *partial.State, at int64, out *Cells) {
	rank, ok := nearestRank(x, int(st.N))
	if !ok {
		return
	}
	word, row := t.Ranked(sl, st, rank)
	if sl.Timed && st.B == 0 { // a sketch keeps no times
		at = row
	}
	out.Times = append(out.Times, at)
	out.Values.AppendWord(word, nil)
}

// picked lists the rows of a pick in the level's direction. Rows of one time are in
// the order of their rank, or in a sample in the order of their value.
func picked(x *Context, t *partial.Table, sl *partial.Slot, st *partial.State, _ int64, out *Cells) {
	p := &t.Picks[st.A]
	p.Prune(x.Stop, sl)
	p.Rows = partial.SortRows(x.Stop, p.Rows, func(a, b partial.PickRow) int {
		byTime := cmp.Compare(a.T, b.T)
		if !x.Asc {
			byTime = -byTime
		}
		if byTime == 0 && sl.Kind == partial.Sample {
			return cmp.Or(cmp.Compare(partial.Ordered(sl.Type, a.Word), partial.Ordered(sl.Type, b.Word)), strings.Compare(a.Text(), b.Text()))
		}
		return byTime
	})
	for i := range p.Rows {
		r := &p.Rows[i]
		if !x.Asc {
			r = &p.Rows[len(p.Rows)-1-i] // slotCells turns all cells around
		}
		out.Times = append(out.Times, r.T)
		expr.AppendScalar(&out.Values, expr.Scalar{Type: sl.Type, Bits: r.Word, Text: r.Text()})
		for k := range out.Aux {
			if out.Aux[k].Type != model.Unknown {
				expr.AppendScalar(&out.Aux[k], r.More.Aux[sl.Tags+k])
			}
		}
	}
}
