package engine

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// eachWindow cuts rows in the level's direction into windows.
func (x *callContext) eachWindow(times []int64, f func(start int64, lo, hi int)) {
	for lo := 0; lo < len(times) && !x.stop.After(0); {
		start := x.win.Start(times[lo])
		hi := len(times)
		if !x.win.None() {
			next := x.win.Next(start)
			hi = lo + 1
			for hi < len(times) && times[hi] >= start && times[hi] < next {
				hi++
			}
		}
		f(start, lo, hi)
		x.stop.After(hi - lo)
		lo = hi
	}
}

// at returns the time of an aggregate over the window that starts at start.
func (x *callContext) at(start int64) int64 {
	if !x.win.None() {
		return start
	}
	if x.open {
		return 0
	}
	return window.ResultTime(x.span.Min)
}

func distinctCounts(x *callContext, rs *rowset) (*cells, error) {
	out := &cells{v: column.Vector{Type: model.Integer}}
	x.eachWindow(rs.times, func(start int64, lo, hi int) {
		out.times = append(out.times, x.at(start))
		out.v.Ints = append(out.v.Ints, int64(len(distinctRows(x.stop, &rs.cols[0], lo, hi))))
	})
	return out, nil
}

func distinctValues(x *callContext, rs *rowset) (*cells, error) {
	v := &rs.cols[0]
	out := &cells{v: column.Vector{Type: v.Type}}
	x.eachWindow(rs.times, func(start int64, lo, hi int) {
		for _, i := range sortRows(x.stop, distinctRows(x.stop, v, lo, hi), x.byTimeAndValue(rs)) {
			out.times = append(out.times, x.at(start))
			out.v.AppendFrom(v, int(i))
		}
	})
	return out, nil
}

func medians(x *callContext, rs *rowset) (*cells, error) {
	out := &cells{v: column.Vector{Type: model.Float}}
	o := expr.Operand{Vector: rs.cols[0]}
	f := o.Floats()
	x.eachWindow(rs.times, func(start int64, lo, hi int) {
		out.times = append(out.times, x.at(start))
		out.v.Floats = append(out.v.Floats, median(x.stop, f[lo:hi]))
	})
	return out, nil
}

func modes(x *callContext, rs *rowset) (*cells, error) {
	v := &rs.cols[0]
	out := &cells{v: column.Vector{Type: v.Type}}
	x.eachWindow(rs.times, func(start int64, lo, hi int) {
		out.times = append(out.times, x.at(start))
		out.v.AppendFrom(v, modeRow(x.stop, rs.times, v, lo, hi))
	})
	return out, nil
}

// distinctRows returns the first row of each value among rows [lo, hi).
func distinctRows(stop *admission.Stopper, v *column.Vector, lo, hi int) []int32 {
	switch v.Type {
	case model.String:
		return firstOf(stop, v.Strings, lo, hi)
	case model.Float:
		return firstOf(stop, v.Floats, lo, hi)
	case model.Integer:
		return firstOf(stop, v.Ints, lo, hi)
	case model.Unsigned:
		return firstOf(stop, v.Uints, lo, hi)
	case model.Boolean:
		return firstOf(stop, v.Bools, lo, hi)
	}
	return nil
}

func firstOf[T comparable](stop *admission.Stopper, x []T, lo, hi int) []int32 {
	seen := make(map[T]struct{}, min(hi-lo, 64))
	var out []int32
	for i := lo; i < hi && !stop.After(1); i++ {
		if _, ok := seen[x[i]]; !ok {
			seen[x[i]] = struct{}{}
			out = append(out, int32(i))
		}
	}
	return out
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
			copy(x[lo:hi+1], sortRows(stop, x[lo:hi+1], cmp.Compare))
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

// compareRows compares two values of a column.
func compareRows(v *column.Vector, a, b int) int {
	switch v.Type {
	case model.Float:
		return cmp.Compare(v.Floats[a], v.Floats[b])
	case model.Integer:
		return cmp.Compare(v.Ints[a], v.Ints[b])
	case model.Unsigned:
		return cmp.Compare(v.Uints[a], v.Uints[b])
	case model.String:
		return cmp.Compare(v.Strings[a], v.Strings[b])
	case model.Boolean:
		return int(word(v, a)) - int(word(v, b))
	}
	return 0
}

// modeRow returns a row with the most frequent value. Among values of one
// frequency above one a larger value wins if it comes before the last of the
// smaller one, as in InfluxDB; if no value comes twice it is the smallest. Of
// booleans it is true when in doubt.
func modeRow(stop *admission.Stopper, times []int64, v *column.Vector, lo, hi int) int {
	rows := make([]int, hi-lo)
	for i := range rows {
		rows[i] = lo + i
	}
	rows = sortRows(stop, rows, func(a, b int) int {
		if c := compareRows(v, a, b); c != 0 {
			return c
		}
		return cmp.Compare(times[a], times[b])
	})
	best, bestN := rows[0], 0
	var bestLast int64
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && compareRows(v, rows[i], rows[j]) == 0 {
			j++
		}
		n := j - i
		switch {
		case n > bestN,
			v.Type == model.Boolean && n == bestN,
			n == bestN && n > 1 && times[rows[i]] <= bestLast:
			best, bestN, bestLast = rows[i], n, times[rows[j-1]]
		}
		i = j
	}
	return best
}

// sortRows sorts rows, those that are equal staying in their order, and returns
// them, perhaps in another place: blocks are sorted, then merged two by two.
func sortRows[T any](stop *admission.Stopper, rows []T, compare func(a, b T) int) []T {
	block := stop.Block()
	for lo := 0; lo < len(rows) && !stop.After(block); lo += block {
		slices.SortStableFunc(rows[lo:min(lo+block, len(rows))], compare)
	}
	if len(rows) <= block {
		return rows
	}
	merged := make([]T, len(rows))
	for size := block; size < len(rows) && !stop.After(0); size *= 2 {
		for lo := 0; lo < len(rows); lo += 2 * size {
			mid, hi := min(lo+size, len(rows)), min(lo+2*size, len(rows))
			a, b := lo, mid
			for k := lo; k < hi && !stop.After(1); k++ {
				if a < mid && (b >= hi || compare(rows[a], rows[b]) <= 0) {
					merged[k] = rows[a]
					a++
				} else {
					merged[k] = rows[b]
					b++
				}
			}
		}
		rows, merged = merged, rows
	}
	return rows
}

func percentiles(x *callContext, rs *rowset) (*cells, error) {
	return x.chosen(rs, x.alone && x.win.None(), func(lo, hi int) []int32 {
		if i := percentileRow(x.stop, &rs.cols[0], lo, hi, x.expr.Args[1]); i >= 0 {
			return []int32{int32(i)}
		}
		return nil
	}), nil
}

func samples(x *callContext, rs *rowset) (*cells, error) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return x.chosen(rs, true, func(lo, hi int) []int32 {
		return sortRows(x.stop, sampleRows(x.stop, rnd, lo, hi, intArg(x.call, 1)), x.byTimeAndValue(rs))
	}), nil
}

// topmost is top, with sign -1, or bottom, with 1.
func topmost(sign int) func(x *callContext, rs *rowset) (*cells, error) {
	return func(x *callContext, rs *rowset) (*cells, error) {
		return x.chosen(rs, true, func(lo, hi int) []int32 { return x.topRows(rs, lo, hi, sign) }), nil
	}
}

// chosen returns the rows that choose lists of each window, at their own times or
// at those of the windows.
func (x *callContext) chosen(rs *rowset, ownTimes bool, choose func(lo, hi int) []int32) *cells {
	var rows []int32
	out := &cells{}
	x.eachWindow(rs.times, func(start int64, lo, hi int) {
		chosen := choose(lo, hi)
		rows = append(rows, chosen...)
		for _, r := range chosen {
			if ownTimes {
				start = rs.times[r]
				out.times = append(out.times, start)
			} else {
				out.times = append(out.times, x.at(start))
			}
		}
	})
	if rows == nil {
		return out
	}
	out.v = expr.Gather(&rs.cols[0], rows)
	if x.alone {
		for _, v := range rs.cols[len(rs.cols)-x.aux:] {
			out.aux = append(out.aux, expr.Gather(&v, rows))
		}
	}
	return out
}

func intArg(c *call, i int) int {
	if n, ok := c.expr.Args[i].(*influxql.IntegerLiteral); ok {
		return int(min(n.Val, math.MaxInt32))
	}
	return 0
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

// sampleRows draws n of the rows [lo, hi), in order.
func sampleRows(stop *admission.Stopper, rnd *rand.Rand, lo, hi, n int) []int32 {
	var out []int32
	for i := lo; i < hi && !stop.After(1); i++ {
		if len(out) < n {
			out = append(out, int32(i))
		} else if k := rnd.IntN(i - lo + 1); k < n {
			out[k] = int32(i)
		}
	}
	return out
}

// byTimeAndValue orders rows by time in the level's direction, those of one time
// by their value, the first column.
func (x *callContext) byTimeAndValue(rs *rowset) func(a, b int32) int {
	return func(a, b int32) int {
		byTime := cmpInt(rs.times[a], rs.times[b])
		if !x.asc {
			byTime = -byTime
		}
		return cmp.Or(byTime, compareRows(&rs.cols[0], int(a), int(b)))
	}
}

// topRows returns the rows of the n best values; with tags, of the best value
// of each combination of them. Of equal values the earlier is better.
func (x *callContext) topRows(rs *rowset, lo, hi, sign int) []int32 {
	c, v := x.call, &rs.cols[0]
	better := func(a, b int32) int {
		if d := sign * compareRows(v, int(a), int(b)); d != 0 {
			return d
		}
		if d := cmp.Compare(rs.times[a], rs.times[b]); d != 0 {
			return d
		}
		if x.asc {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	}
	var rows []int32
	if tags := len(c.expr.Args) - 2; tags > 0 {
		best := map[string]int{}
		var key []byte
		for i := lo; i < hi && !x.stop.After(1); i++ {
			key = key[:0]
			for t := 1; t <= tags; t++ {
				if ref, ok := c.expr.Args[t].(*influxql.VarRef); ok && ref.Type != influxql.Tag && ref.Type != influxql.Unknown {
					continue // a field tells no series apart
				}
				s := expr.ScalarAt(&rs.cols[t], i)
				key = fmt.Appendf(key, "%d/%d/%d/%s", s.Type, s.Bits, len(s.Text), s.Text)
			}
			if k, ok := best[string(key)]; !ok {
				best[string(key)] = len(rows)
				rows = append(rows, int32(i))
			} else if better(int32(i), rows[k]) < 0 {
				rows[k] = int32(i)
			}
		}
	} else if n := intArg(c, len(c.expr.Args)-1); n <= 64 {
		// Few of many: keep the best so far in order.
		for i := lo; i < hi && !x.stop.After(1); i++ {
			r := int32(i)
			if len(rows) == n && better(r, rows[n-1]) >= 0 {
				continue
			}
			at, _ := slices.BinarySearchFunc(rows, r, better)
			if len(rows) == n {
				rows = rows[:n-1]
			}
			rows = slices.Insert(rows, at, r)
		}
	} else {
		for i := lo; i < hi; i++ {
			rows = append(rows, int32(i))
		}
	}
	rows = sortRows(x.stop, rows, better)
	rows = rows[:min(intArg(c, len(c.expr.Args)-1), len(rows))]
	return sortRows(x.stop, rows, func(a, b int32) int {
		if d := cmp.Compare(rs.times[a], rs.times[b]); d != 0 {
			if x.asc {
				return d
			}
			return -d
		}
		return 0
	})
}

// integral is the area under the line through the points, in units of its
// second argument. With windows, the line is cut at their edges.
func integral(x *callContext, rs *rowset) (*cells, error) {
	unit := 1e9
	if len(x.expr.Args) == 2 {
		unit = float64(x.expr.Args[1].(*influxql.DurationLiteral).Val)
	}
	o := expr.Operand{Vector: rs.cols[0]}
	y, t := o.Floats(), rs.times
	out := &cells{v: column.Vector{Type: model.Float}}
	area := func(t0 int64, y0 float64, t1 int64, y1 float64) float64 {
		return (y0 + y1) / 2 * math.Abs(float64(t1-t0)) / unit
	}
	emit := func(start int64, sum float64) {
		at := x.at(start)
		if x.win.None() && x.typ == model.Float {
			at = 0 // InfluxDB shows the lower bound for integers only
		}
		out.times = append(out.times, at)
		out.v.Floats = append(out.v.Floats, sum)
	}
	var sum, py float64
	var window, edge, pt, entered int64 // the window, the end where the walk leaves it
	has := false
	enter := func(at int64) {
		window = x.win.Start(at)
		if edge = window; x.asc {
			edge = x.win.Next(window)
		}
	}
	for i := range t {
		if x.stop.After(1) {
			break
		}
		switch {
		case has && t[i] == pt:
			// The line went to the first of the points at one time; it goes on
			// from the last.
			py = y[i]
			continue
		case !has:
			has = true
			enter(t[i])
			entered = t[i]
		case !x.win.None() && (x.asc && t[i] >= edge || !x.asc && t[i] < edge):
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
		case x.win.None():
			first = x.span.Min
		case !x.asc:
			first = entered
		}
		if pt != first {
			emit(window, sum)
		}
	}
	return out, nil
}
