package tsi

import (
	"cmp"
	"context"
	"slices"
	"unsafe"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/tsi/dictionary"
	"tsdbd/tsi/match"
	"tsdbd/tsi/paged"
)

// EachTagKey calls f with the tag keys that series of any measurement carry, without
// those that only measurements in skip have. Each layer gives its keys in any order. An
// error of f ends the walk. There may be keys of series that came after the view.
func (v *View) EachTagKey(ctx context.Context, skip []string, f func(key string) error) error {
	e := everywhere{v: v, skip: skip, work: match.NewWork(ctx)}
	for _, s := range v.memtables {
		for _, key := range s.allKeys() {
			k, _ := s.pictureOf(key.key)
			ok, err := e.inMemtable(s, k)
			if ok && err == nil {
				err = f(k.key)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, file := range v.files {
		keys, err := file.keys()
		if err != nil {
			return err
		}
		for _, k := range keys {
			ok, err := e.inFile(file, k)
			if ok && err == nil {
				err = f(k.key)
			}
			if err != nil {
				return err
			}
		}
	}
	return e.work.Err()
}

// EachTagValue is EachTagKey of the values of a tag key. Files give theirs ascending.
// A value is f's until f returns.
func (v *View) EachTagValue(ctx context.Context, key string, skip []string, f func(value string) error) error {
	e := everywhere{v: v, skip: skip, work: match.NewWork(ctx)}
	for _, s := range v.memtables {
		if k, ok := s.pictureOf(key); ok {
			if err := e.memtableValues(s, k, f); err != nil {
				return err
			}
		}
	}
	for _, file := range v.files {
		k, err := file.key(key)
		if k != nil && err == nil {
			err = e.fileValues(file, k, f)
		}
		if err != nil {
			return err
		}
	}
	return e.work.Err()
}

// everywhere looks for tags in all measurements but some.
type everywhere struct {
	v    *View
	skip []string
	work *match.Work
}

// inMemtable reports whether a living series of a measurement that counts has a key.
func (e *everywhere) inMemtable(s *memtable, k keyPicture) (bool, error) {
	if !e.v.dead && len(k.in) > len(e.skip) {
		return true, nil
	}
	for _, m := range k.in {
		if slices.Contains(e.skip, m.name) {
			continue
		}
		t, _ := s.table(m.name, false, k.key)
		c := &t.columns[0]
		for row := range c.rows.Len() {
			if e.work.Done(1) {
				return false, e.work.Err()
			}
			if c.rows.At(row) != 0 && e.v.alive.Contains(t.ids.At(row)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// memtableValues calls f with the values of a key in a memtable.
func (e *everywhere) memtableValues(s *memtable, k keyPicture, f func(value string) error) error {
	if !e.v.dead && !s.anyHas(k.key, e.skip) {
		return e.values(&k.values, nil, f)
	}
	for _, m := range k.in {
		if slices.Contains(e.skip, m.name) {
			continue
		}
		t, _ := s.table(m.name, false, k.key)
		if err := e.values(&t.columns[0].values, t.used(e.v.alive, e.v.alive), f); err != nil {
			return err
		}
	}
	return nil
}

// values calls f with the used texts of a list; used nil: all.
func (e *everywhere) values(list *paged.Texts, used []bool, f func(value string) error) error {
	for n := range list.Count() {
		if e.work.Done(1) {
			return e.work.Err()
		}
		if used == nil || used[n+1] {
			if err := f(list.Text(uint32(n) + 1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inFile is inMemtable of a file.
func (e *everywhere) inFile(file *File, k *fileKey) (bool, error) {
	if k.only != 0 {
		return e.any(file, []uint32{k.only}, k.key, "")
	}
	t, err := file.measurementsByValue(k)
	if err != nil || !e.v.dead && t.Present.GetCardinality() > uint64(len(e.skip)) {
		return err == nil, err
	}
	return e.any(file, dictionary.AppendIDs(nil, t.Present), k.key, "")
}

// fileValues calls f with the values of a key in a file.
func (e *everywhere) fileValues(file *File, k *fileKey, f func(value string) error) error {
	var t *dictionary.Tag
	var err error
	if k.only == 0 {
		t, err = file.measurementsByValue(k)
	} else if ok, aerr := e.any(file, []uint32{k.only}, k.key, ""); ok && aerr == nil {
		t, err = file.tag(file.measured[k.only-1], k.key)
	} else {
		err = aerr
	}
	if t == nil || err != nil {
		return err
	}
	var ids []uint32 // of series, or numbers of measurements
	check := e.v.dead || k.only == 0 && slices.ContainsFunc(e.skip, func(name string) bool { return t.Present.Contains(file.number(name)) })
	c := t.Cursor(file)
	for c.Next() {
		if e.work.Done(1 + len(ids)) {
			return e.work.Err()
		}
		value := unsafe.String(unsafe.SliceData(c.Value), len(c.Value))
		if check {
			if ids, err = c.Posting.IDs(ids[:0]); err != nil {
				return c.At(err)
			}
			ok := k.only != 0 && slices.ContainsFunc(ids, e.v.alive.Contains)
			if k.only == 0 {
				if ok, err = e.any(file, ids, k.key, value); err != nil {
					return err
				}
			}
			if !ok {
				continue
			}
		}
		if err := f(value); err != nil {
			return err
		}
	}
	return c.Err()
}

// any reports whether one of the numbered measurements counts and has a living series
// with the key, and with the value unless that is "".
func (e *everywhere) any(file *File, numbers []uint32, key, value string) (bool, error) {
	var ids []uint32
	for _, n := range numbers {
		m, err := file.numbered(n)
		if err != nil {
			return false, err
		}
		if slices.Contains(e.skip, m.name) {
			continue
		}
		if !e.v.dead {
			return true, nil
		}
		if e.work.Done(findSteps) {
			return false, e.work.Err()
		}
		t, err := file.tag(m, key)
		if err != nil {
			return false, err
		}
		if t == nil {
			continue
		}
		if value == "" {
			if t.Present.Intersects(e.v.alive) {
				return true, nil
			}
			continue
		}
		p, ok, err := t.Find(file, value)
		if ok && err == nil {
			ids, err = p.IDs(ids[:0])
		}
		if err != nil {
			return false, binio.InFile(err, file.Path())
		}
		if e.work.Done(len(ids)) {
			return false, e.work.Err()
		}
		if ok && slices.ContainsFunc(ids, e.v.alive.Contains) {
			return true, nil
		}
	}
	return false, nil
}

// MeasurementsWhere returns, sorted, measurements among which are all that have a series
// that satisfies where; exact says that each of them has one, of the view or newer. The
// slice must not be changed.
func (v Charged) MeasurementsWhere(ctx context.Context, where *model.TagExpr) (names []string, exact bool, err error) {
	s := selection{v: v.View, work: match.NewWork(ctx), charge: v.charge}
	exact = !v.dead
	names, known, err := where.Among(func(e *model.TagExpr) ([]string, bool, error) {
		c, ok, err := s.candidates(e)
		exact = exact && c.exact
		return c.names, ok, err
	})
	if err = cmp.Or(s.work.Err(), err); err != nil {
		return nil, false, err
	}
	if !known {
		return v.Measurements(), where == nil, nil
	}
	// Two series may satisfy the sides of an AND.
	return slices.DeleteFunc(names, func(name string) bool { return len(v.Fields(name)) == 0 }), exact && !hasAnd(where), nil
}

// hasAnd reports whether predicates are connected by AND.
func hasAnd(e *model.TagExpr) bool {
	return e != nil && (e.Op == model.TagAnd || e.Op == model.TagOr && (hasAnd(e.Left) || hasAnd(e.Right)))
}

// candidates are measurements, sorted; exact says that each has a series, maybe a deleted
// one, that satisfies a predicate.
type candidates struct {
	names []string
	exact bool
}

// candidates returns the measurements that have a tag with a value that a predicate, which
// is neither AND nor OR, wants, and false if series without the tags satisfy it, or if it is not known.
func (s *selection) candidates(e *model.TagExpr) (c candidates, ok bool, err error) {
	switch {
	case e == nil:
	case e.Op == model.TagNone || e.Op == model.TagIn && len(e.Values) == 0:
		return candidates{exact: true}, true, nil
	case e.Op == model.TagEqual && e.Value != "":
		c, err = s.having(e.Key, []string{e.Value}, nil)
		return c, true, err
	case e.Op == model.TagIn && !slices.Contains(e.Values, ""):
		c, err = s.having(e.Key, e.Values, nil)
		return c, true, err
	case e.Op == model.TagNotEqual && e.Value == "":
		c, err = s.having(e.Key, nil, nil)
		return c, true, err
	case e.Op == model.TagMatch:
		m, err := match.NewValues(e.Regex, s.work)
		if err != nil || m.Empty {
			return c, false, err
		}
		c, err = s.having(e.Key, nil, m)
		return c, true, err
	}
	return c, false, nil
}

// having returns the measurements that have one of the values of a key, or one that
// matches; without values and matcher, those that have the key.
func (s *selection) having(key string, values []string, m *match.Values) (c candidates, err error) {
	c.exact = true
	for _, mem := range s.v.memtables {
		k, _ := mem.pictureOf(key)
		if err := s.takeNames(len(k.in)); err != nil {
			return c, err
		}
		found := mem.having(key, values)
		c.names = append(c.names, found...)
		c.exact = c.exact && (m == nil || len(found) == 0)
	}
	for _, f := range s.v.files {
		k, err := f.key(key)
		if err != nil {
			return c, err
		}
		var numbers dictionary.Collector
		switch {
		case k == nil:
		case k.only != 0:
			numbers.Add(k.only)
			c.exact = c.exact && m == nil && values == nil
		default:
			t, err := f.measurementsByValue(k)
			if err != nil {
				return c, err
			}
			if err := s.numbers(&numbers, f, t, values, m); err != nil {
				return c, err
			}
		}
		set := numbers.Set()
		if err := s.takeNames(int(set.GetCardinality())); err != nil {
			return c, err
		}
		for it := set.Iterator(); it.HasNext(); {
			m, err := f.numbered(it.Next())
			if err != nil {
				return c, err
			}
			c.names = append(c.names, m.name)
		}
	}
	c.names = sortedNames(c.names)
	return c, nil
}

// takeNames charges for n more names in a list that grows.
func (s *selection) takeNames(n int) error {
	if s.charge == nil || n == 0 {
		return nil
	}
	return s.charge(2 * paged.TextHeaderBytes * int64(n))
}

// numbers collects what having wants of the values of a file.
func (s *selection) numbers(into *dictionary.Collector, f *File, t *dictionary.Tag, values []string, m *match.Values) error {
	switch {
	case m != nil:
		return binio.InFile(s.collect(m, f, t, into), f.Path())
	case values == nil:
		for it := t.Present.Iterator(); it.HasNext(); {
			into.Add(it.Next())
		}
		return nil
	}
	return s.findIn(into, f, t, values)
}
