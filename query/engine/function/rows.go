package function

import (
	"math"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// eachWindow cuts rows in the level's direction into windows.
func (x *Context) eachWindow(times []int64, f func(start int64, lo, hi int)) {
	for lo := 0; lo < len(times) && !x.Stop.After(0); {
		start := x.Windows.Start(times[lo])
		hi := len(times)
		if !x.Windows.None() {
			next := x.Windows.Next(start)
			hi = lo + 1
			for hi < len(times) && times[hi] >= start && times[hi] < next {
				hi++
			}
		}
		f(start, lo, hi)
		x.Stop.After(hi - lo)
		lo = hi
	}
}

// At returns the time of an aggregate over the window that starts at start.
func (x *Context) At(start int64) int64 {
	if !x.Windows.None() {
		return start
	}
	if x.Open {
		return 0
	}
	return window.ResultTime(x.Span.Min)
}

// percentiles chooses the row of the nearest rank of each window, with its other columns.
func percentiles(x *Context, rs *rowset.Set) (*Cells, error) {
	v := &rs.Cols[0]
	out := &Cells{Values: column.Vector{Type: v.Type}}
	var rows []int32
	ranks := &partial.Ranker{}
	x.eachWindow(rs.Times, func(start int64, lo, hi int) {
		rank, ok := nearestRank(x, hi-lo)
		if !ok {
			return
		}
		i := ranks.Row(x.Stop, v, lo, hi, rank)
		rows = append(rows, int32(i))
		if x.Windows.None() {
			out.Times = append(out.Times, rs.Times[i])
		} else {
			out.Times = append(out.Times, x.At(start))
		}
	})
	if rows == nil {
		return &Cells{}, nil
	}
	out.Values = expr.Gather(v, rows)
	for _, v := range rs.Cols[1:] {
		out.Aux = append(out.Aux, expr.Gather(&v, rows))
	}
	return out, nil
}

// nearestRank returns the rank of a percentile among n values, counted from 0. It reports
// whether there is one.
func nearestRank(x *Context, n int) (rank int, ok bool) {
	var p float64
	switch a := x.Expr.Args[1].(type) {
	case *influxql.NumberLiteral:
		p = a.Val
	case *influxql.IntegerLiteral:
		p = float64(a.Val)
	}
	rank = int(math.Floor(float64(n)*p/100+0.5)) - 1
	return rank, rank >= 0 && rank < n
}

// integral is the area under the line through the points, in units of its
// second argument. With windows, the line is cut at their edges.
func integral(x *Context, rs *rowset.Set) (*Cells, error) {
	unit := 1e9
	if len(x.Expr.Args) == 2 {
		unit = float64(x.Expr.Args[1].(*influxql.DurationLiteral).Val)
	}
	o := expr.Operand{Vector: rs.Cols[0]}
	y, t := o.Floats(), rs.Times
	out := &Cells{Values: column.Vector{Type: model.Float}}
	area := func(t0 int64, y0 float64, t1 int64, y1 float64) float64 {
		return (y0 + y1) / 2 * math.Abs(float64(t1-t0)) / unit
	}
	emit := func(start int64, sum float64) {
		at := x.At(start)
		if x.Windows.None() && x.Type == model.Float {
			at = 0 // InfluxDB shows the lower bound for integers only
		}
		out.Times = append(out.Times, at)
		out.Values.Floats = append(out.Values.Floats, sum)
	}
	var sum, py float64
	var window, edge, pt, entered int64 // the window, the end where the walk leaves it
	has := false
	enter := func(at int64) {
		window = x.Windows.Start(at)
		if edge = window; x.Asc {
			edge = x.Windows.Next(window)
		}
	}
	for i := range t {
		if x.Stop.After(1) {
			break
		}
		switch {
		case has && t[i] == pt:
			// The line ended at the first of the points at one time. It continues
			// from the last one.
			py = y[i]
			continue
		case !has:
			has = true
			enter(t[i])
			entered = t[i]
		case !x.Windows.None() && (x.Asc && t[i] >= edge || !x.Asc && t[i] < edge):
			// The line leaves the window between the points. What lies between
			// the edge and the new point goes to the new point's window.
			y0 := py + (y[i]-py)*float64(edge-pt)/float64(t[i]-pt)
			emit(window, sum+area(pt, py, edge, y0))
			sum = area(edge, y0, t[i], y[i])
			entered = edge
			enter(t[i])
		default:
			sum += area(pt, py, t[i], y[i])
		}
		pt, py = t[i], y[i]
	}
	if first := window; has {
		// A single point at the start of a window has no area.
		switch {
		case x.Windows.None():
			first = x.Span.Min
		case !x.Asc:
			first = entered
		}
		if pt != first {
			emit(window, sum)
		}
	}
	return out, nil
}
