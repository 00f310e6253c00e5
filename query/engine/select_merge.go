package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
)

// order returns the order of the rows of runs in the scan's direction, or nil if
// they stand in it as they are, ascending. Bounds are the ends of the runs among
// times, after a 0.
func (s *rowScan) order(times []int64, bounds []int, runs []run, tags []model.Tags) []int32 {
	if len(runs) < 2 || s.sorted(s.u.groups.Of(runs[0].id)) {
		perm := mergeOrder(&s.stop, times, bounds)
		if !s.asc {
			slices.Reverse(perm)
		}
		return perm
	}
	h := newSeriesHeap(times, bounds, s.asc)
	// InfluxDB has the series in the order of their keys.
	slices.SortFunc(h.runs, func(a, b int32) int { return strings.Compare(runs[a].key, runs[b].key) })
	if !s.asc {
		slices.Reverse(h.runs)
	}
	if texts := s.leadingTexts(); s.ties >= asInfluxRows && len(texts) > 0 {
		h.tie = func(a, b int32) bool {
			for _, c := range texts {
				x, xok := s.text(c, &runs[a], tags[a], h.at[a]-bounds[a])
				y, yok := s.text(c, &runs[b], tags[b], h.at[b]-bounds[b])
				if !xok || !yok {
					return false
				}
				if x != y {
					return (x < y) == s.asc
				}
			}
			return false
		}
	}
	return h.merge(&s.stop)
}

// sorted reports whether rows of equal time of a group of u.groups stand in the
// order of the tag sets. It depends on the series asked for, not on those that
// have rows: with LIMIT most are not looked at.
func (s *rowScan) sorted(group int) bool { return s.ties == bySeries || s.sizes[group] >= manySeries }

// leadingTexts returns the columns of strings and tags that come before all
// others in the order of names.
func (s *rowScan) leadingTexts() []int {
	list := make([]int, 0, len(s.cs.out))
	for i := range s.cs.out {
		if i > 0 || s.ties != asInfluxChosen {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b int) int {
		x, y := s.cs.out[a].ref, s.cs.out[b].ref
		return cmp.Or(strings.Compare(x.Val, y.Val), cmp.Compare(x.Type, y.Type))
	})
	for i, c := range list {
		if t := s.cs.out[c].ref.Type; t != influxql.Tag && t != influxql.String {
			return list[:i]
		}
	}
	return list
}

// text returns the string that a column has in a row of a run.
func (s *rowScan) text(col int, r *run, tags model.Tags, row int) (string, bool) {
	b := &s.cs.out[col]
	if b.tag {
		v := tags.Get(b.ref.Val)
		return v, v != ""
	}
	v := &r.buf.cols[col]
	if v.Type != model.String || !v.IsValid(r.lo+row) {
		return "", false
	}
	return v.Strings[r.lo+row], true
}

// sortRuns sorts runs by tag set: by the values of all tag keys in order of
// key, an absent tag before every value.
func sortRuns(runs []run) {
	tags := make(map[string]model.Tags, len(runs))
	for i := range runs {
		_, tags[runs[i].key] = model.ParseSeriesKey(runs[i].key, nil)
	}
	slices.SortFunc(runs, func(a, b run) int { return compareTags(tags[a.key], tags[b.key]) })
}

// compareTags compares tag sets as sortRuns wants it.
func compareTags(a, b model.Tags) int {
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
func (s *rowScan) merge(runs []run) (*rowset, error) {
	if len(runs) > 1 {
		for i := range runs {
			if runs[i].key == "" {
				// The key only breaks ties; an unreadable one sorts first.
				runs[i].key, _ = s.u.src.view.SeriesKey(runs[i].id)
				if err := s.grow(int64(len(runs[i].key))); err != nil {
					return nil, err
				}
			}
		}
		sortRuns(runs)
	}
	total := 0
	for _, r := range runs {
		total += r.hi - r.lo
	}
	hasTags := s.cs.needsTags()
	if r := runs[0]; len(runs) == 1 && !hasTags && r.lo == 0 && r.hi == len(r.buf.times) {
		if !s.asc {
			r.buf.reverse()
		}
		return r.buf, nil
	}
	dst := &rowset{times: make([]int64, 0, total)}
	alone := len(runs) == 1 && total == len(runs[0].buf.times)
	if alone {
		dst.cols, dst.table = runs[0].buf.cols, runs[0].buf.table // nobody else reads the buffer
	} else {
		dst.cols = make([]column.Vector, len(s.cs.out))
	}
	bounds := make([]int, 1, len(runs)+1)
	for _, r := range runs {
		dst.times = append(dst.times, r.buf.times[r.lo:r.hi]...)
		bounds = append(bounds, len(dst.times))
	}
	tags := make([]model.Tags, len(runs))
	var of []int32     // run of each row
	var texts []string // of the tag columns
	if hasTags {
		of, texts = make([]int32, total), make([]string, s.cs.tags()*total)
		for i := range runs {
			_, tags[i] = model.ParseSeriesKey(runs[i].key, nil)
			for k := bounds[i]; k < bounds[i+1]; k++ {
				of[k] = int32(i)
			}
		}
	}
	perm := s.order(dst.times, bounds, runs, tags)
	if perm != nil {
		dst.times = expr.AppendTaken(nil, dst.times, 0, 0, perm)
		if hasTags {
			of = expr.AppendTaken(nil, of, 0, 0, perm)
		}
	}
	var all column.Vector // a column in the order of the runs
	for i := range dst.cols {
		b, v := &s.cs.out[i], &dst.cols[i]
		if b.index < 0 && !b.tag {
			continue
		}
		v.Type = b.typ
		switch {
		case b.tag:
			v.Strings, texts = texts[:total:total], texts[total:]
			fillTag(v, b.ref.Val, tags, of)
		case perm != nil:
			all.Reset(b.typ)
			reserve(&all, total)
			for _, r := range runs {
				expr.AppendRows(&all, &r.buf.cols[i], r.lo, r.hi, nil)
			}
			expr.AppendRows(v, &all, 0, 0, perm)
		case alone:
		default:
			reserve(v, total)
			for _, r := range runs {
				expr.AppendRows(v, &r.buf.cols[i], r.lo, r.hi, nil)
			}
		}
	}
	if perm == nil && !s.asc {
		dst.reverse()
	}
	return dst, nil
}

// fillTag fills a column with the values of a tag: row i is of series of[i]. A
// missing tag is null.
func fillTag(v *column.Vector, key string, series []model.Tags, of []int32) {
	values, missing := make([]string, len(series)), false
	for i := range series {
		values[i] = series[i].Get(key)
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

// reserve makes room for n rows in an empty column.
func reserve(v *column.Vector, n int) {
	v.Resize(n)
	v.Resize(0)
}
