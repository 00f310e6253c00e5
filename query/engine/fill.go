package engine

import (
	"errors"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// filler is what fill() asks for: values in place of those that are missing.
type filler struct {
	mode   influxql.FillOption
	number expr.Scalar // of fill(number)
	back   int64       // ns before the range in which fill(previous, duration) looks for a value
}

// newFiller returns the filler of a statement, which may have windows.
func newFiller(stmt *influxql.SelectStatement, windows, asc bool) (filler, error) {
	f := filler{mode: stmt.Fill}
	if f.mode == influxql.NumberFill {
		f.number = expr.LiteralScalar(stmt.FillValue)
	}
	if back, ok := stmt.FillValue.(time.Duration); ok && f.mode == influxql.PreviousFill {
		switch {
		case !windows:
			return f, errors.New("fill(previous, duration) needs GROUP BY time")
		case !asc:
			return f, errors.New("fill(previous, duration) needs ORDER BY time ASC")
		}
		f.back = int64(back)
	}
	return f, nil
}

// checkRows refuses what a statement without functions cannot fill with.
func (f *filler) checkRows() error {
	switch f.mode {
	case influxql.NoFill:
		return errors.New("fill(none) must be used with a function")
	case influxql.LinearFill:
		return errors.New("fill(linear) must be used with a function")
	}
	return nil
}

// dropNulls makes fill(null) leave empty windows out.
func (f *filler) dropNulls() {
	if f.mode == influxql.NullFill {
		f.mode = influxql.NoFill
	}
}

// skips reports whether empty windows are left out.
func (f *filler) skips() bool { return f.mode == influxql.NoFill }

// always reports whether no value is missing after filling.
func (f *filler) always() bool { return f.mode == influxql.NumberFill }

// needsNext reports whether a window is filled from other values than those of
// windows that are shown before it.
func (f *filler) needsNext() bool { return f.mode == influxql.LinearFill || f.back > 0 }

// reach returns r moved out by the time that the filler looks back.
func (f *filler) reach(r model.TimeRange) model.TimeRange {
	switch {
	case f.back == 0 || r.Empty():
	case r.Min < model.MinTime+f.back:
		r.Min = model.MinTime
	default:
		r.Min -= f.back
	}
	return r
}

// fillsRows reports whether nulls in rows are replaced.
func (f *filler) fillsRows() bool {
	return f.mode == influxql.NumberFill || f.mode == influxql.PreviousFill
}

// hole returns what takes the place of a missing value in a column of type t.
// last is the value before it.
func (f *filler) hole(t model.FieldType, last expr.Scalar) expr.Scalar {
	switch {
	case f.mode == influxql.PreviousFill:
		return last
	case f.mode != influxql.NumberFill || t == model.Unknown:
		return expr.Scalar{}
	case t == model.String || t == model.Boolean:
		return expr.Scalar{Type: t}
	}
	return expr.CastScalar(f.number, t)
}

// join returns the rows of v that perm lists; -1 stands for a missing one.
func (f *filler) join(v *column.Vector, perm []int32) column.Vector {
	if perm == nil || v.Type == model.Unknown {
		return *v
	}
	out := column.Vector{Type: v.Type}
	var last expr.Scalar
	for _, i := range perm {
		if i < 0 {
			expr.AppendScalar(&out, f.hole(v.Type, last))
			continue
		}
		out.AppendFrom(v, int(i))
		if f.mode == influxql.PreviousFill {
			last = expr.ScalarAt(v, int(i))
		}
	}
	return out
}

// column replaces the nulls in a column of n rows: of rows, or of what a selector
// has chosen. last is the last value of the rows before, and becomes that of
// these.
func (f *filler) column(v column.Vector, n int, typ model.FieldType, last *expr.Scalar) column.Vector {
	number := f.mode == influxql.NumberFill && f.number.Type != model.Unknown
	if !number && f.mode != influxql.PreviousFill {
		return v
	}
	if v.Type == model.Unknown {
		if typ == model.Unknown || !number && last.Type == model.Unknown {
			return v
		}
		v = column.Vector{Type: typ, Valid: column.NewBitmap(n)}
		v.Resize(n)
	}
	if v.Valid == nil {
		*last = expr.ScalarAt(&v, n-1)
		return v
	}
	out := column.Vector{Type: v.Type}
	for i := range n {
		if v.IsValid(i) {
			out.AppendFrom(&v, i)
			*last = expr.ScalarAt(&v, i)
		} else {
			expr.AppendScalar(&out, f.hole(v.Type, *last))
		}
	}
	return out
}

// windows adds the empty windows to the cells of a group that has some, and drops
// those before the windows that are shown. At most limit cells are left if limit
// is positive.
func (f *filler) windows(x *callContext, c *cells, limit int) error {
	if x.win.None() || f.skips() || len(c.times) == 0 {
		return nil
	}
	mode := *f
	if x.counts && f.mode == influxql.NullFill {
		mode = filler{mode: influxql.NumberFill, number: expr.Scalar{Type: model.Integer}}
	}
	before := x.cutBefore(c)
	if limit > 0 {
		limit = result.AddLimits(limit, before)
	}
	if err := mode.grid(x, c, limit); err != nil || before == 0 {
		return err
	}
	for i := range c.aux {
		c.aux[i] = f.column(c.aux[i], len(c.times), c.aux[i].Type, new(expr.Scalar))
	}
	*c = c.slice(before, len(c.times))
	return nil
}

// cutBefore drops the cells before the windows that are shown, except the last
// one with a value, from which they are filled, and those after it. It returns how
// many of them it leaves.
func (x *callContext) cutBefore(c *cells) int {
	if x.rng == x.shown {
		return 0
	}
	n, keep := 0, 0
	for first := x.win.Start(x.shown.Min); n < len(c.times) && c.times[n] < first; n++ {
		if c.v.IsValid(n) {
			keep = n
		}
	}
	if n == 0 {
		return 0
	}
	*c = c.slice(keep, len(c.times))
	return n - keep
}

// grid makes a cell of every window.
func (f *filler) grid(x *callContext, c *cells, limit int) error {
	first, last, next := x.win.Start(x.shown.Min), x.win.Start(x.shown.Max), x.win.Next
	if !x.asc {
		first, last, next = last, first, x.win.Prev
	}
	if first == model.MinTime {
		first = c.times[0]
	}
	if last == model.MinTime {
		last = c.times[len(c.times)-1]
	}
	if n := len(c.times); x.win.Loc == nil && (limit <= 0 || n <= limit) && c.times[0] == first && c.times[n-1] == last &&
		uint64(max(first, last)-min(first, last)) == uint64(n-1)*uint64(x.win.Every) {
		return nil // none is empty
	}
	out := cells{v: column.Vector{Type: c.v.Type}}
	for i := range c.aux {
		out.aux = append(out.aux, column.Vector{Type: c.aux[i].Type})
	}
	i := 0
	for t := first; x.asc && t <= last || !x.asc && t >= last; {
		if limit > 0 && len(out.times) >= limit || x.stop.Ended {
			break
		}
		if len(out.times)&0xffff == 0xffff {
			x.stop.After(0x10000)
			if err := x.grow(0x10000 * int64(16+8*len(c.aux))); err != nil {
				return err
			}
		}
		// Cells outside the grid (before the range) come first.
		for i < len(c.times) && (x.asc && c.times[i] < t || !x.asc && c.times[i] > t) {
			out.Take(c, i)
			i++
		}
		if i < len(c.times) && c.times[i] == t {
			out.Take(c, i)
			i++
		} else {
			out.times = append(out.times, t)
			for j := range out.aux {
				if out.aux[j].Type != model.Unknown {
					out.aux[j].AppendNull()
				}
			}
			expr.AppendScalar(&out.v, f.window(x, c, i, t))
		}
		after := next(t)
		if after == t || x.asc != (after > t) {
			break
		}
		t = after
	}
	*c = out
	return nil
}

// window returns the value of the empty window t between cells i-1 and i.
func (f *filler) window(x *callContext, c *cells, i int, t int64) expr.Scalar {
	if f.mode != influxql.LinearFill {
		var last expr.Scalar
		if i > 0 {
			last = expr.ScalarAt(&c.v, i-1)
		}
		return f.hole(c.v.Type, last)
	}
	if i == 0 || i == len(c.times) || !c.v.IsValid(i-1) || !c.v.IsValid(i) {
		return expr.Scalar{}
	}
	// Interpolate, counting in windows, or in time if those differ in length.
	x0, x1 := c.times[i-1], c.times[i]
	if x.win.Months == 0 {
		x0, x1, t = x0/x.win.Every, x1/x.win.Every, t/x.win.Every
	}
	at := func(y0, y1 float64) float64 {
		return (y1-y0)/float64(x1-x0)*float64(t-x0) + y0
	}
	switch c.v.Type {
	case model.Float:
		return expr.FloatScalar(at(c.v.Floats[i-1], c.v.Floats[i]))
	case model.Integer:
		return expr.Scalar{Type: model.Integer, Bits: uint64(int64(at(float64(c.v.Ints[i-1]), float64(c.v.Ints[i]))))}
	case model.Unsigned:
		return expr.Scalar{Type: model.Unsigned, Bits: uint64(at(float64(c.v.Uints[i-1]), float64(c.v.Uints[i])))}
	}
	return expr.Scalar{}
}
