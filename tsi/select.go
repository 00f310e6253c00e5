package tsi

import (
	"cmp"
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/tsi/dictionary"
	"tsdbd/tsi/match"
	"tsdbd/tsi/paged"
)

// Select returns the series of a measurement whose tags satisfy where, with
// model.TagExpr's meaning. The caller owns the set. The context's end stops it
// with the context's error.
func (v *View) Select(ctx context.Context, measurement string, where *model.TagExpr) (*roaring.Bitmap, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := selection{v: v, measurement: measurement, work: match.NewWork(ctx)}
	set, ok, err := s.narrow(where)
	if err == nil && !ok {
		if set, err = v.Series(measurement); err == nil && where != nil {
			set, err = s.eval(where, set)
		}
	}
	if err = cmp.Or(s.work.Err(), err); err != nil {
		return nil, err
	}
	return set, nil
}

// narrow evaluates a predicate that a tag with a certain value is a condition of. It
// does not list the other series of the measurement.
func (s *selection) narrow(e *model.TagExpr) (set *roaring.Bitmap, ok bool, err error) {
	switch {
	case e == nil:
	case e.Op == model.TagEqual && e.Value != "":
		set, err = s.equal(e.Key, e.Value, nil)
		return set, true, err
	case e.Op == model.TagAnd:
		for _, side := range [2][2]*model.TagExpr{{e.Left, e.Right}, {e.Right, e.Left}} {
			if set, ok, err = s.narrow(side[0]); ok && err == nil {
				set, err = s.eval(side[1], set)
			}
			if ok || err != nil {
				return set, ok, err
			}
		}
	}
	return nil, false, nil
}

// selection evaluates a predicate over one measurement of a view.
type selection struct {
	v           *View
	measurement string
	work        *match.Work
	charge      func(bytes int64) error // for names; nil: nobody is
}

// eval returns the series of universe that satisfy e; the set is the
// caller's, universe is not changed.
func (s *selection) eval(e *model.TagExpr, universe *roaring.Bitmap) (*roaring.Bitmap, error) {
	if s.work.Done(1 + int(universe.GetCardinality()>>6)) {
		return nil, s.work.Err()
	}
	if e == nil || e.Op == model.TagAll {
		return universe.Clone(), nil
	}
	if universe.IsEmpty() || e.Op == model.TagNone {
		return roaring.New(), nil
	}
	switch e.Op {
	case model.TagAnd:
		// The cheap side first: it narrows what the other has to look at.
		left, right := e.Left, e.Right
		if cost(right) < cost(left) {
			left, right = right, left
		}
		set, err := s.eval(left, universe)
		if err != nil {
			return nil, err
		}
		return s.eval(right, set)
	case model.TagOr:
		set, err := s.eval(e.Left, universe)
		if err != nil {
			return nil, err
		}
		other, err := s.eval(e.Right, universe)
		if err != nil {
			return nil, err
		}
		set.Or(other)
		return set, nil
	case model.TagEqual, model.TagNotEqual:
		hits, err := s.equal(e.Key, e.Value, universe)
		return within(universe, hits, e.Op == model.TagNotEqual, err)
	case model.TagIn, model.TagNotIn:
		hits, err := s.in(e.Key, e.Values, universe)
		return within(universe, hits, e.Op == model.TagNotIn, err)
	case model.TagMatch, model.TagNotMatch:
		hits, err := s.match(e, universe)
		return within(universe, hits, e.Op == model.TagNotMatch, err)
	}
	return nil, fmt.Errorf("select %s: unknown tag operator %d", s.measurement, e.Op)
}

// within returns the part of universe that is in hits, or that is not.
func within(universe, hits *roaring.Bitmap, not bool, err error) (*roaring.Bitmap, error) {
	if err != nil {
		return nil, err
	}
	if not {
		return roaring.AndNot(universe, hits), nil
	}
	hits.And(universe)
	return hits, nil
}

// cost ranks predicates by the part of a dictionary that they read.
func cost(e *model.TagExpr) int {
	if e == nil {
		return 0
	}
	switch e.Op {
	case model.TagEqual, model.TagNotEqual:
		return 1
	case model.TagIn, model.TagNotIn:
		return min(1+len(e.Values), 99)
	case model.TagMatch, model.TagNotMatch:
		return 100
	case model.TagAnd:
		return min(cost(e.Left), cost(e.Right)) + 1
	case model.TagOr:
		return cost(e.Left) + cost(e.Right)
	}
	return 0
}

// equal returns the series, of universe and maybe others, whose tag has the
// value. The set is the caller's. universe nil: the value is not "", and all live.
func (s *selection) equal(key, value string, universe *roaring.Bitmap) (*roaring.Bitmap, error) {
	if value == "" {
		return s.absent(key, universe)
	}
	var c dictionary.Collector
	for _, mem := range s.v.memtables {
		n := mem.number(s.measurement, key, value)
		if n == 0 {
			continue
		}
		t, _ := mem.table(s.measurement, false, key)
		// Series that come together have values whose numbers are close together.
		t.columns[0].rows.EachWith(n, func(first int, rows []uint32) {
			if s.work.Done(len(rows)) {
				return
			}
			for i, r := range rows {
				if r == n {
					c.Add(t.ids.At(first + i))
				}
			}
		})
	}
	if err := s.find(&c, key, value); err != nil {
		return nil, err
	}
	if universe == nil {
		return c.Within(s.v.alive), nil
	}
	return c.Set(), nil
}

// find adds the series of files whose tag has one of the values.
func (s *selection) find(c *dictionary.Collector, key string, values ...string) error {
	for _, f := range s.v.files {
		t, err := s.tag(f, key)
		if t != nil && err == nil {
			err = s.findIn(c, f, t, values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findIn adds what a file's dictionary has for some values.
func (s *selection) findIn(c *dictionary.Collector, f *File, t *dictionary.Tag, values []string) error {
	for _, value := range values {
		if s.work.Done(findSteps) {
			return s.work.Err()
		}
		p, ok, err := t.Find(f, value)
		if err == nil && ok {
			err = c.AddPosting(&p)
		}
		if err != nil {
			return binio.InFile(err, f.Path())
		}
	}
	return nil
}

// in returns the series, of universe and maybe others, whose tag has one of the
// values. The set is the caller's.
func (s *selection) in(key string, values []string, universe *roaring.Bitmap) (*roaring.Bitmap, error) {
	var c dictionary.Collector
	for _, mem := range s.v.memtables {
		s.column(&c, mem, key, func(_ *paged.Texts, wanted []bool) {
			for _, value := range values {
				// Its column may have got new values since it was pictured.
				if n := int(mem.number(s.measurement, key, value)); n > 0 && n < len(wanted) {
					wanted[n] = true
				}
				if s.work.Done(findSteps) {
					return
				}
			}
		})
	}
	if err := s.find(&c, key, values...); err != nil {
		return nil, err
	}
	set := c.Set()
	if len(values) > 0 && values[0] == "" {
		lacking, err := s.absent(key, universe)
		if err != nil {
			return nil, err
		}
		set.Or(lacking)
	}
	return set, nil
}

// column adds the series of a memtable whose value of a tag is wanted: choose
// sets this by the values' numbers.
func (s *selection) column(c *dictionary.Collector, mem *memtable, key string, choose func(values *paged.Texts, wanted []bool)) {
	t, ok := mem.table(s.measurement, false, key)
	if !ok {
		return
	}
	col := &t.columns[0]
	wanted := make([]bool, col.values.Count()+1)
	choose(&col.values, wanted)
	col.rows.Each(func(first int, rows []uint32) {
		if s.work.Done(len(rows)) {
			return
		}
		for i, n := range rows {
			if wanted[n] {
				c.Add(t.ids.At(first + i))
			}
		}
	})
}

// tag returns the dictionary of a tag key in a file, nil if there is none.
func (s *selection) tag(f *File, key string) (*dictionary.Tag, error) {
	m := f.measurement(s.measurement)
	if m == nil {
		return nil, nil
	}
	return f.tag(m, key)
}

// absent returns the series of universe that lack a tag.
func (s *selection) absent(key string, universe *roaring.Bitmap) (*roaring.Bitmap, error) {
	set := universe.Clone()
	for _, mem := range s.v.memtables {
		t, ok := mem.table(s.measurement, false, key)
		if !ok {
			continue
		}
		var c dictionary.Collector
		t.columns[0].rows.Each(func(first int, rows []uint32) {
			if s.work.Done(len(rows)) {
				return
			}
			for i, r := range rows {
				if r != 0 {
					c.Add(t.ids.At(first + i))
				}
			}
		})
		set.AndNot(c.Set())
	}
	for _, f := range s.v.files {
		t, err := s.tag(f, key)
		if err != nil {
			return nil, err
		}
		if t != nil {
			set.AndNot(t.Present)
		}
	}
	return set, nil
}

// fewSeries is the number of series up to which a regular expression is run
// over their keys instead of the dictionary.
const fewSeries = 256

// match returns the series, of universe and maybe others, whose tag value
// matches. The set is the caller's.
func (s *selection) match(e *model.TagExpr, universe *roaring.Bitmap) (*roaring.Bitmap, error) {
	m, err := match.NewValues(e.Regex, s.work)
	if err != nil {
		return nil, err
	}
	if m.All {
		return universe.Clone(), nil
	}
	if s.v.index.opt.Keys != nil && universe.GetCardinality() <= fewSeries {
		set := roaring.New()
		ids := seriesIDs(universe)
		var tags model.Tags
		err := s.v.index.opt.Keys(ids, func(i int, key string) error {
			_, tags = model.ParseSeriesKey(key, tags[:0])
			if m.MatchString(tags.Get(e.Key)) {
				set.Add(uint32(ids[i]))
			}
			return nil
		})
		if err == nil {
			return set, nil
		}
	}
	var c dictionary.Collector
	for _, mem := range s.v.memtables {
		s.column(&c, mem, e.Key, func(values *paged.Texts, wanted []bool) {
			for n := 1; n < len(wanted) && s.work.Err() == nil; n++ {
				wanted[n] = m.MatchString(values.Text(uint32(n)))
			}
		})
	}
	for _, f := range s.v.files {
		t, err := s.tag(f, e.Key)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue
		}
		if err := s.collect(m, f, t, &c); err != nil {
			return nil, binio.InFile(err, f.Path())
		}
	}
	set := c.Set()
	if m.Empty {
		lacking, err := s.absent(e.Key, universe)
		if err != nil {
			return nil, err
		}
		set.Or(lacking)
	}
	return set, nil
}

// findSteps is what finding a value in a file's dictionary costs, in steps.
const findSteps = 100

// collect adds the series of the values in a file's dictionary that match.
func (s *selection) collect(m *match.Values, f *File, t *dictionary.Tag, into *dictionary.Collector) error {
	for _, p := range m.Places {
		if s.work.Done(findSteps) {
			return s.work.Err()
		}
		if p.Exact {
			post, ok, err := t.Find(f, p.Prefix)
			if err == nil && ok {
				err = into.AddPosting(&post)
			}
			if err != nil {
				return err
			}
			continue
		}
		c := t.Cursor(f)
		if p.Prefix != "" && !c.Seek(p.Prefix) {
			return c.Err()
		}
		fresh := true // the matcher's last value is not the cursor's
		for c.Next() {
			if p.Prefix != "" && (len(c.Value) < len(p.Prefix) || string(c.Value[:len(p.Prefix)]) != p.Prefix) {
				break
			}
			if p.Check {
				shared := c.Shared
				if fresh {
					shared, fresh = 0, false
				}
				if !m.Match(c.Value, shared) {
					continue
				}
			}
			if err := into.AddPosting(&c.Posting); err != nil {
				return err
			}
			if s.work.Done(1 + c.Posting.Len()) {
				return s.work.Err()
			}
		}
		if c.Err() != nil {
			return c.Err()
		}
	}
	return nil
}
