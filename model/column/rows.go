package column

import (
	"math"
	"sort"

	"tsdbd/model"
)

// Rows is a run of points of one series: a time per row and a vector per
// field, row-aligned. Times are ascending unless said otherwise.
type Rows struct {
	Times []int64
	Cols  []Vector
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.Times) }

// Reset empties r and gives it columns of the given types, keeping memory.
func (r *Rows) Reset(types []model.FieldType) {
	r.Times = r.Times[:0]
	for len(r.Cols) < len(types) {
		r.Cols = append(r.Cols, Vector{})
	}
	r.Cols = r.Cols[:len(types)]
	for i, t := range types {
		r.Cols[i].Reset(t)
	}
}

// Slice returns rows [lo, hi), sharing r's memory as Vector.Slice does. The
// columns are put into dst, which is returned.
func (r *Rows) Slice(lo, hi int, dst []Vector) Rows {
	dst = dst[:0]
	for i := range r.Cols {
		dst = append(dst, r.Cols[i].Slice(lo, hi))
	}
	return Rows{Times: r.Times[lo:hi], Cols: dst}
}

// Bounds returns the rows [lo, hi) whose times lie in t.
func (r *Rows) Bounds(t model.TimeRange) (lo, hi int) {
	return BoundsOf(r.Times, t)
}

// BoundsOf returns the positions [lo, hi) of the ascending times that lie in t.
func BoundsOf(times []int64, t model.TimeRange) (lo, hi int) {
	n := len(times)
	if n == 0 || t.Min > t.Max {
		return 0, 0
	}
	if t.Min > times[0] {
		lo = sort.Search(n, func(i int) bool { return times[i] >= t.Min })
	}
	hi = n
	if t.Max < times[n-1] {
		hi = sort.Search(n, func(i int) bool { return times[i] > t.Max })
	}
	return lo, max(lo, hi)
}

// Keep drops the rows for which keep is false, in place. A row without any
// value is dropped too when dropEmpty is set.
func (r *Rows) Keep(keep func(i int) bool, dropEmpty bool) {
	n := 0
	for i := range r.Times {
		if !keep(i) || (dropEmpty && r.empty(i)) {
			continue
		}
		if n != i {
			r.Times[n] = r.Times[i]
			for c := range r.Cols {
				r.Cols[c].move(n, i)
			}
		}
		n++
	}
	r.Times = r.Times[:n]
	for c := range r.Cols {
		r.Cols[c].Resize(n)
		r.Cols[c].trimValid(n)
	}
}

func (r *Rows) empty(i int) bool {
	for c := range r.Cols {
		if r.Cols[c].IsValid(i) {
			return false
		}
	}
	return true
}

// move copies row i to row n < i.
func (v *Vector) move(n, i int) {
	switch v.Type {
	case model.Float:
		v.Floats[n] = v.Floats[i]
	case model.Integer:
		v.Ints[n] = v.Ints[i]
	case model.Unsigned:
		v.Uints[n] = v.Uints[i]
	case model.String:
		v.Strings[n] = v.Strings[i]
	case model.Boolean:
		v.Bools[n] = v.Bools[i]
	}
	if v.Valid != nil {
		if v.Valid.Get(i) {
			v.Valid.Set(n)
		} else {
			v.Valid.Clear(n)
		}
	}
}

// trimValid cuts Valid to n rows and drops it when every row is valid.
func (v *Vector) trimValid(n int) {
	if v.Valid == nil {
		return
	}
	v.Valid = v.Valid[:(n+63)/64]
	if r := uint(n) & 63; r != 0 {
		v.Valid[n>>6] &= 1<<r - 1
	}
	if v.Valid.Count(n) == n {
		v.Valid = nil
	}
}

// Merge appends to dst the union of srcs by time. Where several sources have a
// row of the same time its fields are merged; the value of the later source
// wins. All sources and dst have the same column types and ascending, unique
// times.
func Merge(dst *Rows, srcs []*Rows) {
	pos := make([]int, len(srcs))
	for {
		best := int64(math.MaxInt64)
		count, only := 0, -1
		for s, r := range srcs {
			if pos[s] >= len(r.Times) {
				continue
			}
			switch t := r.Times[pos[s]]; {
			case count == 0 || t < best:
				best, count, only = t, 1, s
			case t == best:
				count++
			}
		}
		if count == 0 {
			return
		}
		if count == 1 {
			// Copy the run of this source up to the next time of another.
			limit := int64(math.MaxInt64)
			for s, r := range srcs {
				if s != only && pos[s] < len(r.Times) {
					limit = min(limit, r.Times[pos[s]])
				}
			}
			r := srcs[only]
			lo := pos[only]
			hi := lo + 1
			for hi < len(r.Times) && r.Times[hi] < limit {
				hi++
			}
			dst.AppendRange(r, lo, hi)
			pos[only] = hi
			continue
		}
		dst.Times = append(dst.Times, best)
		for c := range dst.Cols {
			found := false
			for s := len(srcs) - 1; s >= 0; s-- {
				r := srcs[s]
				if pos[s] < len(r.Times) && r.Times[pos[s]] == best && r.Cols[c].IsValid(pos[s]) {
					dst.Cols[c].AppendFrom(&r.Cols[c], pos[s])
					found = true
					break
				}
			}
			if !found {
				dst.Cols[c].AppendNull()
			}
		}
		for s, r := range srcs {
			if pos[s] < len(r.Times) && r.Times[pos[s]] == best {
				pos[s]++
			}
		}
	}
}

// AppendRange appends rows [lo, hi) of src, whose columns have dst's types.
func (r *Rows) AppendRange(src *Rows, lo, hi int) {
	r.Times = append(r.Times, src.Times[lo:hi]...)
	for c := range r.Cols {
		r.Cols[c].AppendVector(&src.Cols[c], lo, hi)
	}
}

// AppendVector appends rows [lo, hi) of w, which has the same type.
func (v *Vector) AppendVector(w *Vector, lo, hi int) {
	n := v.Len()
	switch v.Type {
	case model.Float:
		v.Floats = append(v.Floats, w.Floats[lo:hi]...)
	case model.Integer:
		v.Ints = append(v.Ints, w.Ints[lo:hi]...)
	case model.Unsigned:
		v.Uints = append(v.Uints, w.Uints[lo:hi]...)
	case model.String:
		v.Strings = append(v.Strings, w.Strings[lo:hi]...)
	case model.Boolean:
		v.Bools = append(v.Bools, w.Bools[lo:hi]...)
	}
	if w.Valid == nil && v.Valid == nil {
		return
	}
	v.needValid(n)
	v.growValid(n + hi - lo)
	for i := lo; i < hi; i++ {
		if w.IsValid(i) {
			v.Valid.Set(n + i - lo)
		}
	}
}

// AppendNulls appends n rows without a value.
func (v *Vector) AppendNulls(n int) {
	for range n {
		v.AppendNull()
	}
}

// Nulls makes v a column of n rows without a value.
func (v *Vector) Nulls(t model.FieldType, n int) {
	v.Reset(t)
	v.Resize(n)
	for i := range n {
		v.setZero(i)
	}
	v.Valid = NewBitmap(n)
}
