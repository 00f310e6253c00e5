package function

import (
	"cmp"
	"math"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
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

func medians(x *Context, rs *rowset.Set) (*Cells, error) {
	out := &Cells{Values: column.Vector{Type: model.Float}}
	o := expr.Operand{Vector: rs.Cols[0]}
	f := o.Floats()
	x.eachWindow(rs.Times, func(start int64, lo, hi int) {
		out.Times = append(out.Times, x.At(start))
		out.Values.Floats = append(out.Values.Floats, median(x.Stop, f[lo:hi]))
	})
	return out, nil
}

func median(stop *admission.Stopper, x []float64) float64 {
	s := slices.Clone(x)
	n := len(s)
	high := kth(stop, s, n/2)
	if n%2 == 1 {
		return high
	}
	low := slices.Max(s[:n/2])
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		return low + high
	}
	return low + (high-low)/2
}

// kth returns the value of rank k, counted from 0, and leaves the smaller
// ones before it. Quickselect with the median of three; what it makes of an
// unlucky order is bounded by sorting the rest.
func kth[T cmp.Ordered](stop *admission.Stopper, x []T, k int) T {
	lo, hi := 0, len(x)-1
	for rounds := 0; lo < hi && !stop.After(hi-lo); rounds++ {
		if rounds > 64 {
			copy(x[lo:hi+1], partial.SortRows(stop, x[lo:hi+1], cmp.Compare))
			break
		}
		mid := lo + (hi-lo)/2
		if x[mid] < x[lo] {
			x[mid], x[lo] = x[lo], x[mid]
		}
		if x[hi] < x[lo] {
			x[hi], x[lo] = x[lo], x[hi]
		}
		if x[hi] < x[mid] {
			x[hi], x[mid] = x[mid], x[hi]
		}
		pivot := x[mid]
		i, j := lo, hi
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for pivot < x[j] {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return x[k]
		}
	}
	return x[k]
}

// kthRow returns the row among [lo, hi) that has rank k by value, rows of equal
// value counted in their order.
func kthRow(stop *admission.Stopper, v *column.Vector, lo, hi, k int) int {
	switch v.Type {
	case model.Float:
		return lo + ranked(stop, v.Floats[lo:hi], k)
	case model.Integer:
		return lo + ranked(stop, v.Ints[lo:hi], k)
	case model.Unsigned:
		return lo + ranked(stop, v.Uints[lo:hi], k)
	}
	return lo
}

func ranked[T cmp.Ordered](stop *admission.Stopper, x []T, k int) int {
	value := kth(stop, slices.Clone(x), k)
	for _, y := range x {
		if y < value {
			k--
		}
	}
	for i, y := range x {
		if y == value {
			if k == 0 {
				return i
			}
			k--
		}
	}
	return 0
}

// percentiles chooses the row of the nearest rank of each window.
func percentiles(x *Context, rs *rowset.Set) (*Cells, error) {
	v := &rs.Cols[0]
	out := &Cells{Values: column.Vector{Type: v.Type}}
	var rows []int32
	x.eachWindow(rs.Times, func(start int64, lo, hi int) {
		i := percentileRow(x.Stop, v, lo, hi, x.Expr.Args[1])
		if i < 0 {
			return
		}
		rows = append(rows, int32(i))
		if x.Alone && x.Windows.None() {
			out.Times = append(out.Times, rs.Times[i])
		} else {
			out.Times = append(out.Times, x.At(start))
		}
	})
	if rows == nil {
		return &Cells{}, nil
	}
	out.Values = expr.Gather(v, rows)
	if x.Alone {
		for _, v := range rs.Cols[1:] {
			out.Aux = append(out.Aux, expr.Gather(&v, rows))
		}
	}
	return out, nil
}

// percentileRow returns the row of the nearest rank, or -1.
func percentileRow(stop *admission.Stopper, v *column.Vector, lo, hi int, arg influxql.Expr) int {
	var p float64
	switch a := arg.(type) {
	case *influxql.NumberLiteral:
		p = a.Val
	case *influxql.IntegerLiteral:
		p = float64(a.Val)
	}
	n := hi - lo
	i := int(math.Floor(float64(n)*p/100+0.5)) - 1
	if i < 0 || i >= n {
		return -1
	}
	return kthRow(stop, v, lo, hi, i)
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
