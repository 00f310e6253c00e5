package hint

import (
	"fmt"
	"slices"
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
	name   string
	shards []scan.Shard                 // that have it
	tags   [][]string                   // keys, by shard
	types  map[string][]model.FieldType // of fields that were looked up
}

func (k *known) readTagKeys() bool {
	for _, s := range k.shards {
		if !k.look() {
			return false
		}
		keys, err := s.TagKeys(k.name)
		if k.failed(err) {
			return false
		}
		k.tags = append(k.tags, keys)
	}
	return true
}

// typesOf returns the types that a field has; none if there is no such field.
func (k *known) typesOf(name string) []model.FieldType {
	types, ok := k.types[name]
	if ok {
		return types
	}
	for _, s := range k.shards {
		fields := s.Fields(k.name)
		if i, ok := column.FindField(fields, name); ok && !slices.Contains(types, fields[i].Type) {
			types = append(types, fields[i].Type)
		}
	}
	k.types[name] = types
	return types
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

// exists reports whether a name is a column.
func (k *known) exists(name string) bool { return k.isTag(name) || len(k.typesOf(name)) > 0 }

// noColumn says that the measurement has no column of a name.
func (k *known) noColumn(name string) string {
	var columns []string
	for i := 0; i < len(k.shards) && len(columns) <= maxNames && k.near < maxNear; i++ {
		list := slices.Clone(k.tags[i])
		for _, f := range k.shards[i].Fields(k.name) {
			list = append(list, f.Key)
		}
		columns = union(columns, list)
	}
	return fmt.Sprintf("%s is no field or tag of %s", quoted(name), quoted(k.name)) + k.meant(name, columns)
}

// selected says why a select list has no values: none of its names is a field.
func (k *known) selected(fields influxql.Fields) string {
	var refs []*influxql.VarRef
	all, calls := false, false // a wildcard, a function
	influxql.WalkFunc(fields, func(n influxql.Node) {
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
	if all || len(refs) == 0 || slices.ContainsFunc(refs, k.isField) {
		return ""
	}
	for _, ref := range refs {
		switch {
		case k.isTag(ref.Val):
		case len(k.typesOf(ref.Val)) > 0:
			return k.notTag(ref.Val)
		default:
			return k.noColumn(ref.Val)
		}
	}
	if calls {
		return fmt.Sprintf("%s is a tag of %s: functions take fields", quoted(refs[0].Val), quoted(k.name))
	}
	return fmt.Sprintf("only tags of %s are selected: rows need a field, such as %s", quoted(k.name), quoted(k.shards[0].Fields(k.name)[0].Key))
}

func (k *known) notTag(name string) string {
	return fmt.Sprintf("%s is a field of %s, not a tag", quoted(name), quoted(k.name))
}

// times says that no series has all tags of the condition, or that the series of the
// condition have no rows in the time range.
func (k *known) times(cond expr.Condition) string {
	tags, _ := expr.SplitTags(cond.Expr, k.isField)
	if matches(tags) {
		tags = nil // the index would try the expression on every value
	}
	rows := model.TimeRange{Min: model.MaxTime, Max: model.MinTime} // of all shards
	for _, s := range k.shards {
		if !k.look() {
			return ""
		}
		set, err := s.Select(k.ctx, k.name, tags)
		if k.failed(err) {
			return ""
		}
		if r, ok := s.TimeBounds(set); ok && !set.IsEmpty() {
			rows = rows.Union(r)
			if r.Overlaps(cond.Range) {
				return ""
			}
		}
	}
	with := ""
	if tags != nil {
		with = " with the tags of the condition"
	}
	switch {
	case rows.Empty() && tags != nil:
		return fmt.Sprintf("no series of %s has all tags of the condition", quoted(k.name))
	case rows.Empty():
		return ""
	}
	text := fmt.Sprintf("%s has no rows%s in the time range of the query: the oldest is of %s, the newest of %s", quoted(k.name), with, timeText(rows.Min), timeText(rows.Max))
	if r := cond.Range; cond.HasMax && r.Max > 0 && r.Max < inNanoseconds && rows.Min > inNanoseconds {
		text += "; a time without a unit is in nanoseconds"
	}
	return text
}

// matches reports whether a predicate has a regular expression.
func matches(e *model.TagExpr) bool {
	return e != nil && (e.Regex != nil || matches(e.Left) || matches(e.Right))
}

// inNanoseconds is a time in April 1970. A number below it is probably a time of this
// century in seconds, milliseconds or microseconds.
const inNanoseconds = 1e16

func timeText(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }
