package plan

import (
	"cmp"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/engine/function"
	"tsdbd/query/expr"
)

// openViews opens the views that the sources need over r. The names of the sources are
// resolved.
func (x *Planner) openViews(sources influxql.Sources, r model.TimeRange) error {
	for _, src := range sources {
		switch s := src.(type) {
		case *influxql.SubQuery:
			if err := x.openViews(s.Statement.Sources, r); err != nil {
				return err
			}
		case *influxql.Measurement:
			key := viewKey{s.Database, s.RetentionPolicy, 0}
			if x.views[key] == nil {
				if err := x.openView(key, r); err != nil {
					return err
				}
				if err := x.openTargets(key, r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// openView opens a view over r.
func (x *Planner) openView(key viewKey, r model.TimeRange) error {
	v, err := x.Storage.View(key.database, key.policy, r)
	if err != nil {
		return err
	}
	open := &openView{View: v}
	for _, sh := range v.Shards() {
		open.shards = append(open.shards, sh.Charged(x.KeepUnits))
	}
	x.views[key] = open
	if x.Warn != nil {
		for _, text := range scan.Notes(v, r) {
			x.Warn(text)
		}
	}
	return nil
}

func (x *Planner) view(m *influxql.Measurement) *openView {
	return x.views[viewKey{m.Database, m.RetentionPolicy, 0}]
}

// nameBytes is what a name takes in a list. Its text is the index's.
const nameBytes = 16

// matchKey is a regular expression over the measurements of a retention policy.
type matchKey struct {
	viewKey
	regex string
}

// names returns the measurements that a source reads, sorted. Those of a regular
// expression are looked up once.
func (x *Planner) names(m *influxql.Measurement) ([]string, error) {
	if m.Regex == nil {
		return []string{m.Name}, nil
	}
	key := matchKey{viewKey{m.Database, m.RetentionPolicy, 0}, m.Regex.Val.String()}
	if names, ok := x.matches[key]; ok {
		return names, nil
	}
	var names []string
	for _, sh := range x.shardsOf(m) {
		if err := x.Ctx.Err(); err != nil {
			return nil, err
		}
		all := sh.Measurements()
		if err := x.Keep(int64(len(all)) * nameBytes); err != nil {
			return nil, err
		}
		var found []string
		for i, name := range all {
			if i%1024 == 0 {
				if err := x.Ctx.Err(); err != nil {
					return nil, err
				}
			}
			if m.Regex.Val.MatchString(name) {
				found = append(found, name)
			}
		}
		var err error
		if names, err = x.union(names, found); err != nil {
			return nil, err
		}
	}
	if x.matches == nil {
		x.matches = map[matchKey][]string{}
	}
	x.matches[key] = names
	return names, nil
}

// union returns the elements of two sorted lists, equal ones once.
func (x *Planner) union(a, b []string) ([]string, error) {
	if len(a) == 0 || slices.Equal(a, b) {
		return b, nil
	}
	if err := x.Keep(int64(len(a)+len(b)) * nameBytes); err != nil {
		return nil, err
	}
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// schema answers the questions of the type checker from the open shards: a
// field has the widest type of any shard. It asks for the same names again and
// again.
type schema struct {
	x      *Planner
	all    []*influxql.Measurement // of the statement and its subqueries
	known  map[schemaName]influxql.DataType
	copies int64 // what a field adds to the select lists, with all wildcards expanded
	failed error // the first of those that MapType cannot return
}

// expandedBytes is what the plan holds of a field of a select list that a wildcard
// stands for, about.
const expandedBytes = 1500

type schemaName struct {
	viewKey
	source, name string
}

// typed returns the statement with its wildcards expanded and the types of all
// references, which it checks.
func (x *Planner) typed(stmt *influxql.SelectStatement) (*influxql.SelectStatement, error) {
	types := &schema{x: x, all: measurements(stmt, nil), known: map[schemaName]influxql.DataType{}}
	expanded(stmt, &types.copies)
	typed, err := stmt.RewriteFields(types)
	if err == nil {
		check := influxql.TypeValuerEval{TypeMapper: types, Sources: typed.Sources}
		for _, f := range typed.Fields {
			if _, err = check.EvalType(f.Expr); err != nil {
				break
			}
		}
	}
	if types.failed != nil {
		return nil, types.failed // a type that could not be read is no type error
	}
	return typed, err
}

// measurements appends the measurements that a statement and its subqueries read.
func measurements(stmt *influxql.SelectStatement, out []*influxql.Measurement) []*influxql.Measurement {
	for _, src := range stmt.Sources {
		switch src := src.(type) {
		case *influxql.SubQuery:
			out = measurements(src.Statement, out)
		case *influxql.Measurement:
			out = append(out, src)
		}
	}
	return out
}

// expanded returns how many fields of the select list of a statement a field of the
// measurements becomes, and adds those of its subqueries and its own to total.
func expanded(stmt *influxql.SelectStatement, total *int64) (n int64) {
	for _, src := range stmt.Sources {
		if sub, ok := src.(*influxql.SubQuery); ok {
			n += expanded(sub.Statement, total)
		} else {
			n = max(n, 1)
		}
	}
	wildcards := int64(0)
	for _, f := range stmt.Fields {
		influxql.WalkFunc(f.Expr, func(node influxql.Node) {
			switch node.(type) {
			case *influxql.Wildcard, *influxql.RegexLiteral:
				wildcards++
			}
		})
	}
	n = min(n*wildcards, 1<<40)
	*total += n
	return n
}

// ask reports why the statement must end, if it must.
func (s *schema) ask() error {
	if s.failed == nil {
		s.failed = s.x.Ctx.Err()
	}
	return s.failed
}

// FieldDimensions implements influxql.FieldMapper.
func (s *schema) FieldDimensions(m *influxql.Measurement) (map[string]influxql.DataType, map[string]struct{}, error) {
	fields := map[string]influxql.DataType{}
	tags := map[string]struct{}{}
	names, err := s.x.names(m)
	if err != nil {
		return nil, nil, err
	}
	add := func(field string, typ influxql.DataType) error {
		have, met := fields[field]
		if !met {
			if err := cmp.Or(s.ask(), s.x.Keep(s.copies*expandedBytes)); err != nil {
				return err
			}
		}
		if have.LessThan(typ) {
			fields[field] = typ
		}
		return nil
	}
	for _, name := range names {
		for _, sh := range s.x.view(m).shards {
			for _, f := range sh.Fields(name) {
				if err := add(f.Key, expr.DataType(f.Type)); err != nil {
					return nil, nil, err
				}
			}
		}
		if err := s.x.storedTypes(m, name, add); err != nil {
			return nil, nil, err
		}
		for _, sh := range s.x.shardsOf(m) {
			if err := s.ask(); err != nil {
				return nil, nil, err
			}
			keys, err := sh.TagKeys(name)
			if err != nil {
				return nil, nil, err
			}
			for _, k := range keys {
				if _, known := tags[k]; !known {
					if err := s.x.Keep(s.copies*expandedBytes + int64(len(k))); err != nil {
						return nil, nil, err
					}
					tags[k] = struct{}{}
				}
			}
		}
	}
	for field, typ := range fields {
		if typ == influxql.Unknown { // only targets have it, and none knows its type
			fields[field] = s.MapType(m, field)
		}
	}
	return fields, tags, s.failed
}

// MapType implements influxql.TypeMapper.
func (s *schema) MapType(m *influxql.Measurement, name string) influxql.DataType {
	key := schemaName{viewKey{m.Database, m.RetentionPolicy, 0}, m.String(), name}
	typ, ok := s.known[key]
	if !ok && s.ask() == nil {
		var err error
		if typ, err = s.find(m, name); err != nil {
			s.failed = err
		}
		s.known[key] = typ
	}
	return typ
}

// find returns the widest type of a field of a source, or else whether it has a tag of
// the name.
func (s *schema) find(m *influxql.Measurement, key string) (typ influxql.DataType, err error) {
	typ, stored, err := s.fieldType(m, key)
	if err != nil || typ != influxql.Unknown {
		return typ, err
	}
	if stored {
		// Of the types of other sources it must not hide one: the widest counts for all.
		for _, other := range s.all {
			t, _, err := s.fieldType(other, key)
			if err != nil {
				return typ, err
			}
			if typ.LessThan(t) {
				typ = t
			}
		}
		return cmp.Or(typ, influxql.Float), nil
	}
	names, err := s.x.names(m)
	if err != nil {
		return typ, err
	}
	for _, name := range names {
		for _, sh := range s.x.shardsOf(m) {
			if err := s.ask(); err != nil {
				return typ, err
			}
			keys, err := sh.TagKeys(name)
			if err != nil {
				return typ, err
			}
			if _, ok := slices.BinarySearch(keys, key); ok {
				return influxql.Tag, nil
			}
		}
	}
	return typ, nil
}

// CallType implements influxql.CallTypeMapper.
func (s *schema) CallType(name string, args []influxql.DataType) (influxql.DataType, error) {
	if len(args) == 0 {
		return influxql.Unknown, nil
	}
	if m, ok := expr.MathFunctions[name]; ok {
		if m.KeepsType {
			return args[0], nil
		}
		return influxql.Float, nil
	}
	f := function.Functions[name]
	if f.Gives != model.Unknown {
		return expr.DataType(f.Gives), nil
	}
	return args[0], nil
}

// fieldType returns the widest type of a field of a source, and whether targets have columns of
// it, which may not know its type.
func (s *schema) fieldType(m *influxql.Measurement, key string) (typ influxql.DataType, stored bool, err error) {
	names, err := s.x.names(m)
	if err != nil {
		return typ, false, err
	}
	for _, name := range names {
		if err := s.ask(); err != nil {
			return typ, false, err
		}
		for _, sh := range s.x.view(m).shards {
			fields := sh.Fields(name)
			if i, ok := column.FindField(fields, key); ok {
				if t := expr.DataType(fields[i].Type); typ.LessThan(t) {
					typ = t
				}
			}
		}
		err := s.x.storedTypes(m, name, func(field string, t influxql.DataType) error {
			if field == key {
				if stored = true; typ.LessThan(t) {
					typ = t
				}
			}
			return nil
		})
		if err != nil {
			return typ, false, err
		}
	}
	return typ, stored, nil
}
