package query

import (
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
)

// cells is what one call gives for one group: values at times, in the
// direction of the level, with the chosen rows' other columns if it selects.
type cells struct {
	times []int64
	v     column.Vector
	aux   []column.Vector // as level.refs; nil if there is none
}

// fillWindows adds the empty windows of the range r to the cells of a group
// that has some. At most limit cells are made if limit is positive.
func (l *level) fillWindows(x *exec, c *cells, counts bool, r model.TimeRange, limit int) error {
	mode, number := l.fill, l.fillTo
	if l.win.None() || mode == influxql.NoFill || len(c.times) == 0 {
		return nil
	}
	if counts && mode == influxql.NullFill {
		mode, number = influxql.NumberFill, scalar{typ: model.Integer}
	}
	first, last := l.win.Start(r.Min), l.win.Start(r.Max)
	if !l.asc {
		first, last = last, first
	}
	if first == model.MinTime {
		first = c.times[0]
	}
	if last == model.MinTime {
		last = c.times[len(c.times)-1]
	}
	if n := len(c.times); l.win.Loc == nil && (limit <= 0 || n <= limit) && c.times[0] == first && c.times[n-1] == last &&
		uint64(max(first, last)-min(first, last)) == uint64(n-1)*uint64(l.win.Every) {
		return nil // none is empty
	}
	out := cells{v: column.Vector{Type: c.v.Type}}
	for i := range c.aux {
		out.aux = append(out.aux, column.Vector{Type: c.aux[i].Type})
	}
	fillValue := fillScalar(number, c.v.Type)
	i, prev := 0, -1
	for t := first; l.asc && t <= last || !l.asc && t >= last; {
		if limit > 0 && len(out.times) >= limit {
			break
		}
		if len(out.times)&0xffff == 0xffff {
			if err := x.check(); err != nil {
				return err
			}
			if err := x.grow(0x10000 * int64(16+8*len(c.aux))); err != nil {
				return err
			}
		}
		// Cells outside the grid (before the range) come first.
		for i < len(c.times) && (l.asc && c.times[i] < t || !l.asc && c.times[i] > t) {
			out.take(c, i)
			prev = i
			i++
		}
		if i < len(c.times) && c.times[i] == t {
			out.take(c, i)
			prev = i
			i++
		} else {
			out.times = append(out.times, t)
			for j := range out.aux {
				if out.aux[j].Type != model.Unknown {
					out.aux[j].AppendNull()
				}
			}
			switch {
			case mode == influxql.NumberFill:
				appendScalar(&out.v, fillValue)
			case mode == influxql.PreviousFill && prev >= 0:
				out.v.AppendFrom(&c.v, prev)
			case mode == influxql.LinearFill && prev >= 0 && i < len(c.times):
				appendScalar(&out.v, l.linear(c, prev, i, t))
			default:
				out.v.AppendNull()
			}
		}
		var next int64
		if l.asc {
			next = l.win.Next(t)
		} else {
			next = l.win.Prev(t)
		}
		if next == t || l.asc != (next > t) {
			break
		}
		t = next
	}
	*c = out
	return nil
}

func (c *cells) take(src *cells, i int) {
	c.times = append(c.times, src.times[i])
	c.v.AppendFrom(&src.v, i)
	for j := range c.aux {
		if c.aux[j].Type != model.Unknown {
			c.aux[j].AppendFrom(&src.aux[j], i)
		}
	}
}

// linear interpolates between cells a and b, counting in windows, or in time if
// those differ in length.
func (l *level) linear(c *cells, a, b int, t int64) scalar {
	if !c.v.IsValid(a) || !c.v.IsValid(b) {
		return scalar{}
	}
	x0, x1, x := c.times[a], c.times[b], t
	if l.win.Months == 0 {
		x0, x1, x = x0/l.win.Every, x1/l.win.Every, x/l.win.Every
	}
	at := func(y0, y1 float64) float64 {
		return (y1-y0)/float64(x1-x0)*float64(x-x0) + y0
	}
	switch c.v.Type {
	case model.Float:
		return floatScalar(at(c.v.Floats[a], c.v.Floats[b]))
	case model.Integer:
		return scalar{typ: model.Integer, bits: uint64(int64(at(float64(c.v.Ints[a]), float64(c.v.Ints[b]))))}
	case model.Unsigned:
		return scalar{typ: model.Unsigned, bits: uint64(at(float64(c.v.Uints[a]), float64(c.v.Uints[b])))}
	}
	return scalar{}
}
