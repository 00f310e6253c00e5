package plan

import (
	"sort"

	"github.com/influxdata/influxql"

	"tsdbd/model"
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
			key := [2]string{s.Database, s.RetentionPolicy}
			if x.Views[key] == nil {
				v, err := x.Storage.View(s.Database, s.RetentionPolicy, r)
				if err != nil {
					return err
				}
				x.Views[key] = v
				x.warnOfLosses(v, r)
			}
		}
	}
	return nil
}

func (x *Planner) view(m *influxql.Measurement) scan.View {
	return x.Views[[2]string{m.Database, m.RetentionPolicy}]
}

// expandSources replaces regular expressions by the measurements they match.
func (x *Planner) expandSources(stmt *influxql.SelectStatement) {
	var out influxql.Sources
	for _, src := range stmt.Sources {
		switch s := src.(type) {
		case *influxql.SubQuery:
			x.expandSources(s.Statement)
			out = append(out, s)
		case *influxql.Measurement:
			if s.Regex == nil {
				out = append(out, s)
				continue
			}
			seen := map[string]bool{}
			for _, sh := range x.view(s).Shards() {
				for _, name := range sh.Measurements() {
					if !seen[name] && s.Regex.Val.MatchString(name) {
						seen[name] = true
					}
				}
			}
			names := make([]string, 0, len(seen))
			for n := range seen {
				names = append(names, n)
			}
			sort.Strings(names)
			for _, n := range names {
				out = append(out, &influxql.Measurement{Database: s.Database, RetentionPolicy: s.RetentionPolicy, Name: n})
			}
		}
	}
	stmt.Sources = out
}

// schema answers the questions of the type checker from the open shards: a
// field has the widest type of any shard. It asks for the same names again and
// again.
type schema struct {
	x      *Planner
	known  map[schemaName]influxql.DataType
	failed error // the first of those that MapType cannot return
}

type schemaName struct{ db, rp, measurement, name string }

// typed returns the statement with its wildcards expanded and the types of all
// references, which it checks.
func (x *Planner) typed(stmt *influxql.SelectStatement) (*influxql.SelectStatement, error) {
	types := &schema{x: x, known: map[schemaName]influxql.DataType{}}
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

// FieldDimensions implements influxql.FieldMapper.
func (s *schema) FieldDimensions(m *influxql.Measurement) (map[string]influxql.DataType, map[string]struct{}, error) {
	fields := map[string]influxql.DataType{}
	tags := map[string]struct{}{}
	for _, sh := range s.x.view(m).Shards() {
		for _, f := range sh.Fields(m.Name) {
			if t := expr.DataType(f.Type); fields[f.Key].LessThan(t) {
				fields[f.Key] = t
			}
		}
		keys, err := sh.TagKeys(m.Name)
		if err != nil {
			return nil, nil, err
		}
		for _, k := range keys {
			tags[k] = struct{}{}
		}
	}
	return fields, tags, nil
}

// MapType implements influxql.TypeMapper.
func (s *schema) MapType(m *influxql.Measurement, name string) influxql.DataType {
	key := schemaName{m.Database, m.RetentionPolicy, m.Name, name}
	typ, ok := s.known[key]
	if !ok {
		typ = s.find(m, name)
		s.known[key] = typ
	}
	return typ
}

func (s *schema) find(m *influxql.Measurement, name string) influxql.DataType {
	typ := influxql.Unknown
	for _, sh := range s.x.view(m).Shards() {
		fields := sh.Fields(m.Name)
		i := sort.Search(len(fields), func(i int) bool { return fields[i].Key >= name })
		if i < len(fields) && fields[i].Key == name {
			if t := expr.DataType(fields[i].Type); typ.LessThan(t) {
				typ = t
			}
		}
	}
	if typ != influxql.Unknown {
		return typ
	}
	for _, sh := range s.x.view(m).Shards() {
		keys, err := sh.TagKeys(m.Name)
		if err != nil && s.failed == nil {
			s.failed = err
		}
		if i := sort.SearchStrings(keys, name); i < len(keys) && keys[i] == name {
			return influxql.Tag
		}
	}
	return typ
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
