package hint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
)

// known is a measurement that exists.
type known struct {
	*Asker
	name        string
	where       string                       // the name for texts, and which shards were looked at if not all
	shards      []scan.Shard                 // that have it
	tags        [][]string                   // keys, by shard
	types       map[string][]model.FieldType // of fields that were looked up
	values      map[string][]string          // of tags that were listed, sorted
	columnNames []string                     // the first names of fields and tags, sorted; nil until they are asked for
}

func (k *known) readTagKeys() error {
	for _, s := range k.shards {
		if err := k.look(); err != nil {
			return err
		}
		keys, err := s.TagKeys(k.name)
		if err != nil {
			return err
		}
		k.tags = append(k.tags, keys)
	}
	return nil
}

// typesOf returns the types that a field has; none if there is no such field.
func (k *known) typesOf(name string) []model.FieldType {
	types, ok := k.types[name]
	if ok {
		return types
	}
	for _, s := range k.shards {
		if t, ok := fieldType(s.Fields(k.name), name); ok && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	k.types[name] = types
	return types
}

func fieldType(fields []column.Field, name string) (model.FieldType, bool) {
	i, ok := slices.BinarySearchFunc(fields, name, func(f column.Field, name string) int { return strings.Compare(f.Key, name) })
	if !ok {
		return model.Unknown, false
	}
	return fields[i].Type, true
}

func (k *known) isTag(name string) bool {
	return slices.ContainsFunc(k.tags, func(keys []string) bool {
		_, ok := slices.BinarySearch(keys, name)
		return ok
	})
}

// isField reports whether a reference means a field, as it does for a SELECT.
func (k *known) isField(ref *influxql.VarRef) bool {
	return ref.Type != influxql.Tag && len(k.typesOf(ref.Val)) > 0
}

// noColumn says that the measurement has no column of a name.
func (k *known) noColumn(name string) string {
	if k.columnNames == nil { // there is a field at least
		for i, s := range k.shards {
			list := slices.Clone(k.tags[i])
			for _, f := range s.Fields(k.name) {
				list = append(list, f.Key)
			}
			if k.columnNames = union(k.columnNames, list); len(k.columnNames) > maxNames {
				break
			}
		}
	}
	return fmt.Sprintf("%s is no field or tag of %s", quoted(name), k.where) + meant(k.nearest(name, k.columnNames))
}

// selected says why a select list has no values: none of its names is a field.
func (k *known) selected(fields influxql.Fields) string {
	var refs []*influxql.VarRef
	all, calls := false, false // a wildcard, a function
	for _, f := range fields {
		influxql.WalkFunc(f.Expr, func(n influxql.Node) {
			switch n := n.(type) {
			case *influxql.VarRef:
				if n.Val != "time" {
					refs = append(refs, n)
				}
			case *influxql.Wildcard, *influxql.RegexLiteral:
				all = true
			case *influxql.Call:
				calls = true
			}
		})
	}
	if all || len(refs) == 0 || slices.ContainsFunc(refs, k.isField) {
		return ""
	}
	for _, ref := range refs {
		switch {
		case k.isTag(ref.Val):
		case len(k.typesOf(ref.Val)) > 0:
			return fmt.Sprintf("%s is a field of %s, not a tag", quoted(ref.Val), k.where)
		default:
			return k.noColumn(ref.Val)
		}
	}
	if calls {
		return fmt.Sprintf("%s is a tag of %s: functions take fields", quoted(refs[0].Val), k.where)
	}
	return fmt.Sprintf("only tags of %s are selected: rows need a field, such as %s", k.where, quoted(k.shards[0].Fields(k.name)[0].Key))
}

// times says that no series has all tags of the condition, or that the series of the
// condition have no rows in the time range.
func (k *known) times(cond expr.Condition) (string, error) {
	tags, _ := expr.SplitTags(cond.Expr, k.isField)
	if matches(tags) {
		tags = nil // the index would try the expression on every value
	}
	var rows model.TimeRange // of all shards
	found := false
	for _, s := range k.shards {
		if err := k.look(); err != nil {
			return "", err
		}
		set, err := s.Select(k.ctx, k.name, tags)
		if err != nil {
			return "", err
		}
		r, has := s.TimeBounds(set)
		switch {
		case set.IsEmpty() || !has:
			continue
		case r.Overlaps(cond.Range):
			return "", nil
		case found:
			r = rows.Union(r)
		}
		rows, found = r, true
	}
	with := ""
	if tags != nil {
		with = " with the tags of the condition"
	}
	switch {
	case !found && tags != nil:
		return fmt.Sprintf("no series of %s has all tags of the condition", k.where), nil
	case !found:
		return "", nil
	}
	text := fmt.Sprintf("%s has no rows%s in the time range of the query: the oldest is of %s, the newest of %s", k.where, with, timeText(rows.Min), timeText(rows.Max))
	if r := cond.Range; cond.HasMax && r.Max > 0 && r.Max < inNanoseconds && rows.Min > inNanoseconds {
		text += "; a time without a unit is in nanoseconds"
	}
	return text, nil
}

// matches reports whether a predicate has a regular expression.
func matches(e *model.TagExpr) bool {
	switch {
	case e == nil:
		return false
	case e.Op == model.TagAnd, e.Op == model.TagOr:
		return matches(e.Left) || matches(e.Right)
	}
	return e.Op == model.TagMatch || e.Op == model.TagNotMatch
}

// inNanoseconds is a time in April 1970. A number below it is probably a time of this
// century in seconds, milliseconds or microseconds.
const inNanoseconds = 1e16

func timeText(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }
