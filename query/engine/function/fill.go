package function

import (
	"errors"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// Filler is what fill() asks for: values in place of those that are missing.
type Filler struct {
	mode   influxql.FillOption
	number expr.Scalar // of fill(number)
	back   int64       // ns before the range in which fill(previous, duration) looks for a value
}

// NewFiller returns the filler of a statement, which may have windows.
func NewFiller(stmt *influxql.SelectStatement, windows, asc bool) (Filler, error) {
	f := Filler{mode: stmt.Fill}
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

// CheckRows refuses what a statement without functions cannot fill with.
func (f *Filler) CheckRows() error {
	switch f.mode {
	case influxql.NoFill:
		return errors.New("fill(none) must be used with a function")
	case influxql.LinearFill:
		return errors.New("fill(linear) must be used with a function")
	}
	return nil
}

// DropNulls makes fill(null) leave empty windows out.
func (f *Filler) DropNulls() {
	if f.mode == influxql.NullFill {
		f.mode = influxql.NoFill
	}
}

// Skips reports whether empty windows are left out.
func (f *Filler) Skips() bool { return f.mode == influxql.NoFill }

// Always reports whether no value is missing after filling.
func (f *Filler) Always() bool { return f.mode == influxql.NumberFill }

// NeedsNext reports whether a window is filled from other values than those of
// windows that are shown before it.
func (f *Filler) NeedsNext() bool { return f.mode == influxql.LinearFill || f.back > 0 }

// Reach returns r moved out by the time that the filler looks back.
func (f *Filler) Reach(r model.TimeRange) model.TimeRange {
	switch {
	case f.back == 0 || r.Empty():
	case r.Min < model.MinTime+f.back:
		r.Min = model.MinTime
	default:
		r.Min -= f.back
	}
	return r
}

// FillsRows reports whether nulls in rows are replaced.
func (f *Filler) FillsRows() bool {
	return f.mode == influxql.NumberFill || f.mode == influxql.PreviousFill
}

// Hole returns what takes the place of a missing value in a column of type t.
// last is the value before it.
func (f *Filler) Hole(t model.FieldType, last expr.Scalar) expr.Scalar {
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

// Join returns the rows of v that perm lists. A place of -1 has no row.
func (f *Filler) Join(v *column.Vector, perm []int32) column.Vector {
	if perm == nil || v.Type == model.Unknown {
		return *v
	}
	out := column.Vector{Type: v.Type}
	var last expr.Scalar
	for _, i := range perm {
		if i < 0 {
			expr.AppendScalar(&out, f.Hole(v.Type, last))
			continue
		}
		out.AppendFrom(v, int(i))
		if f.mode == influxql.PreviousFill {
			last = expr.ScalarAt(v, int(i))
		}
	}
	return out
}

// Column replaces the nulls in a column of n rows: of rows, or of what a selector
// has chosen. last is the last value of the rows before, and becomes that of
// these.
func (f *Filler) Column(v column.Vector, n int, typ model.FieldType, last *expr.Scalar) column.Vector {
	number := f.mode == influxql.NumberFill && f.number.Type != model.Unknown
	if !number && f.mode != influxql.PreviousFill {
		return v
	}
	if v.Type == model.Unknown {
		if typ == model.Unknown && number {
			typ = f.number.Type // nobody has such a field
		}
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
			expr.AppendScalar(&out, f.Hole(v.Type, *last))
		}
	}
	return out
}

// Windows adds the empty windows to the cells of a group that has some, and drops
// those before the windows that are shown. At most limit cells are left if limit
// is positive.
func (f *Filler) Windows(x *Context, c *Cells, limit int) error {
	if x.Windows.None() || f.Skips() || len(c.Times) == 0 {
		return nil
	}
	mode := *f
	if x.counts && f.mode == influxql.NullFill {
		mode = Filler{mode: influxql.NumberFill, number: expr.Scalar{Type: model.Integer}}
	}
	before := x.cutBefore(c)
	if limit > 0 {
		limit = result.AddLimits(limit, before)
	}
	if err := mode.grid(x, c, limit); err != nil || before == 0 {
		return err
	}
	for i := range c.Aux {
		c.Aux[i] = f.Column(c.Aux[i], len(c.Times), c.Aux[i].Type, new(expr.Scalar))
	}
	*c = c.Slice(before, len(c.Times))
	return nil
}

// cutBefore drops the cells before the windows that are shown, except the last
// one with a value, from which they are filled, and those after it. It returns how
// many of them it leaves.
func (x *Context) cutBefore(c *Cells) int {
	if x.Range == x.Shown {
		return 0
	}
	n, keep := 0, 0
	for first := x.Windows.Start(x.Shown.Min); n < len(c.Times) && c.Times[n] < first; n++ {
		if c.Values.IsValid(n) {
			keep = n
		}
	}
	if n == 0 {
		return 0
	}
	*c = c.Slice(keep, len(c.Times))
	return n - keep
}

// grid makes a cell of every window.
func (f *Filler) grid(x *Context, c *Cells, limit int) error {
	first, last, next := x.Windows.Start(x.Shown.Min), x.Windows.Start(x.Shown.Max), x.Windows.Next
	if x.Open || first == model.MinTime {
		first = min(c.Times[0], c.Times[len(c.Times)-1])
	}
	if !x.Asc {
		first, last, next = last, first, x.Windows.Prev
	}
	if n := len(c.Times); x.Windows.Loc == nil && (limit <= 0 || n <= limit) && c.Times[0] == first && c.Times[n-1] == last &&
		uint64(max(first, last)-min(first, last)) == uint64(n-1)*uint64(x.Windows.Every) {
		return nil // none is empty
	}
	out := Cells{Values: column.Vector{Type: c.Values.Type}}
	for i := range c.Aux {
		out.Aux = append(out.Aux, column.Vector{Type: c.Aux[i].Type})
	}
	i := 0
	for t := first; x.Asc && t <= last || !x.Asc && t >= last; {
		if limit > 0 && len(out.Times) >= limit || x.Stop.Ended {
			break
		}
		if len(out.Times)&0xffff == 0xffff {
			x.Stop.After(0x10000)
			if err := x.Grow(0x10000 * int64(16+8*len(c.Aux))); err != nil {
				return err
			}
		}
		// Cells outside the grid (before the range) come first.
		for i < len(c.Times) && (x.Asc && c.Times[i] < t || !x.Asc && c.Times[i] > t) {
			out.Take(c, i)
			i++
		}
		if i < len(c.Times) && c.Times[i] == t {
			out.Take(c, i)
			i++
		} else {
			out.Times = append(out.Times, t)
			for j := range out.Aux {
				if out.Aux[j].Type != model.Unknown {
					out.Aux[j].AppendNull()
				}
			}
			expr.AppendScalar(&out.Values, f.window(x, c, i, t))
		}
		after := next(t)
		if after == t || x.Asc != (after > t) {
			break
		}
		t = after
	}
	*c = out
	return nil
}

// window returns the value of the empty window t between cells i-1 and i.
func (f *Filler) window(x *Context, c *Cells, i int, t int64) expr.Scalar {
	if f.mode != influxql.LinearFill {
		var last expr.Scalar
		if i > 0 {
			last = expr.ScalarAt(&c.Values, i-1)
		}
		return f.Hole(c.Values.Type, last)
	}
	if i == 0 || i == len(c.Times) || !c.Values.IsValid(i-1) || !c.Values.IsValid(i) {
		return expr.Scalar{}
	}
	// Interpolate, counting in windows, or in time if those differ in length.
	x0, x1 := c.Times[i-1], c.Times[i]
	if x.Windows.Months == 0 {
		x0, x1, t = x0/x.Windows.Every, x1/x.Windows.Every, t/x.Windows.Every
	}
	at := func(y0, y1 float64) float64 {
		return (y1-y0)/float64(x1-x0)*float64(t-x0) + y0
	}
	switch c.Values.Type {
	case model.Float:
		return expr.FloatScalar(at(c.Values.Floats[i-1], c.Values.Floats[i]))
	case model.Integer:
		return expr.Scalar{Type: model.Integer, Bits: uint64(int64(at(float64(c.Values.Ints[i-1]), float64(c.Values.Ints[i]))))}
	case model.Unsigned:
		return expr.Scalar{Type: model.Unsigned, Bits: uint64(at(float64(c.Values.Uints[i-1]), float64(c.Values.Uints[i])))}
	}
	return expr.Scalar{}
}
