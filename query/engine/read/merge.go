package read

import (
	"cmp"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// order returns the order of the rows of runs in the scan's direction, or nil if the
// rows are in ascending order already. bounds are the ends of the runs among times,
// after a 0.
func (s *rowScan) order(times []int64, bounds []int, runs []run) []int32 {
	if len(runs) < 2 || s.sorted(s.u.byShard.Of(runs[0].id)) {
		perm := rowset.Order(&s.stop, times, bounds)
		if !s.Asc {
			slices.Reverse(perm)
		}
		return perm
	}
	h := rowset.NewHeap(times, bounds, s.Asc)
	// InfluxDB has the series in the order of their keys.
	slices.SortFunc(h.Runs, func(a, b int32) int { return strings.Compare(runs[a].key, runs[b].key) })
	if !s.Asc {
		slices.Reverse(h.Runs)
	}
	if texts := s.leadingTexts(); s.Ties >= rowset.AsInfluxRows && len(texts) > 0 {
		h.Tie = func(a, b int32) bool {
			for _, c := range texts {
				x, xok := s.text(c, &runs[a], h.At[a]-bounds[a])
				y, yok := s.text(c, &runs[b], h.At[b]-bounds[b])
				if !xok || !yok {
					return false
				}
				if x != y {
					return (x < y) == s.Asc
				}
			}
			return false
		}
	}
	return h.Merge(&s.stop)
}

// sorted reports whether rows of equal time of a group of u are in the
// order of the tag sets. It depends on the series asked for, not on those that
// have rows: with LIMIT most are not looked at.
func (s *rowScan) sorted(group int) bool {
	return s.Ties == rowset.BySeries || s.sizes[group] >= rowset.ManySeries
}

// leadingTexts returns the columns of strings and tags that come before all
// others in the order of names.
func (s *rowScan) leadingTexts() []int {
	list := make([]int, 0, len(s.cs.Out))
	for i := range s.cs.Out {
		if i > 0 || s.Ties != rowset.AsInfluxChosen {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b int) int {
		x, y := s.cs.Out[a].Ref, s.cs.Out[b].Ref
		return cmp.Or(strings.Compare(x.Val, y.Val), cmp.Compare(x.Type, y.Type))
	})
	for i, c := range list {
		if t := s.cs.Out[c].Ref.Type; t != influxql.Tag && t != influxql.String {
			return list[:i]
		}
	}
	return list
}

// text returns the string that a column has in a row of a run.
func (s *rowScan) text(col int, r *run, row int) (string, bool) {
	b := &s.cs.Out[col]
	if b.Tag {
		v := r.tags.Get(b.Ref.Val)
		return v, v != ""
	}
	v := &r.buf.Cols[col]
	if v.Type != model.String || !v.IsValid(r.lo+row) {
		return "", false
	}
	return v.Strings[r.lo+row], true
}

// CompareTags compares tag sets by the values of all tag keys in order of key, an
// absent tag before every value.
func CompareTags(a, b model.Tags) int {
	for i := range min(len(a), len(b)) {
		if a[i].Key != b[i].Key {
			// The set with the smaller key has a value where the other has none.
			return -strings.Compare(a[i].Key, b[i].Key)
		}
		if c := strings.Compare(a[i].Value, b[i].Value); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// merge brings the runs of a group into one order, that of time in the scan's
// direction.
func (s *rowScan) merge(runs []run) (*rowset.Set, error) {
	hasTags := s.cs.NeedsTags()
	if len(runs) > 1 || hasTags {
		for i := range runs {
			r := &runs[i]
			if r.key == "" {
				// The key only breaks ties; an unreadable one sorts first.
				r.key, _ = s.u.Source.View.SeriesKey(r.id)
				if err := s.grow(int64(len(r.key))); err != nil {
					return nil, err
				}
			}
			_, r.tags = model.ParseSeriesKey(r.key, nil)
		}
		slices.SortFunc(runs, func(a, b run) int { return CompareTags(a.tags, b.tags) })
	}
	total := 0
	for _, r := range runs {
		total += r.hi - r.lo
	}
	if r := runs[0]; len(runs) == 1 && !hasTags && r.lo == 0 && r.hi == len(r.buf.Times) {
		if !s.Asc {
			r.buf.Reverse()
		}
		return r.buf, nil
	}
	dst := &rowset.Set{Times: make([]int64, 0, total)}
	alone := len(runs) == 1 && total == len(runs[0].buf.Times)
	if alone {
		dst.Cols, dst.Table = runs[0].buf.Cols, runs[0].buf.Table // nobody else reads the buffer
	} else {
		dst.Cols = make([]column.Vector, len(s.cs.Out))
	}
	bounds := make([]int, 1, len(runs)+1)
	for _, r := range runs {
		dst.Times = append(dst.Times, r.buf.Times[r.lo:r.hi]...)
		bounds = append(bounds, len(dst.Times))
	}
	var of []int32     // run of each row
	var texts []string // of the tag columns
	if hasTags {
		of, texts = make([]int32, total), make([]string, s.cs.tags()*total)
		for i := range runs {
			for k := bounds[i]; k < bounds[i+1]; k++ {
				of[k] = int32(i)
			}
		}
	}
	perm := s.order(dst.Times, bounds, runs)
	if perm != nil {
		dst.Times = expr.AppendTaken(nil, dst.Times, 0, 0, perm)
		if hasTags {
			of = expr.AppendTaken(nil, of, 0, 0, perm)
		}
	}
	var all column.Vector // a column in the order of the runs
	for i := range dst.Cols {
		b, v := &s.cs.Out[i], &dst.Cols[i]
		if b.Index < 0 && !b.Tag {
			continue
		}
		v.Type = b.Type
		switch {
		case b.Tag:
			v.Strings, texts = texts[:total:total], texts[total:]
			fillTag(v, b.Ref.Val, runs, of)
		case perm != nil:
			all.Reset(b.Type)
			expr.Reserve(&all, total)
			for _, r := range runs {
				expr.AppendRows(&all, &r.buf.Cols[i], r.lo, r.hi, nil)
			}
			expr.AppendRows(v, &all, 0, 0, perm)
		case alone:
		default:
			expr.Reserve(v, total)
			for _, r := range runs {
				expr.AppendRows(v, &r.buf.Cols[i], r.lo, r.hi, nil)
			}
		}
	}
	if perm == nil && !s.Asc {
		dst.Reverse()
	}
	return dst, nil
}

// fillTag fills a column with the values of a tag: row i is of run of[i]. A
// missing tag is null.
func fillTag(v *column.Vector, key string, runs []run, of []int32) {
	values, missing := make([]string, len(runs)), false
	for i := range runs {
		values[i] = runs[i].tags.Get(key)
		missing = missing || values[i] == ""
	}
	for i, k := range of {
		v.Strings[i] = values[k]
	}
	if !missing {
		return
	}
	v.Valid = column.NewBitmap(len(of))
	for i := range v.Strings {
		if v.Strings[i] != "" {
			v.Valid.Set(i)
		}
	}
}
