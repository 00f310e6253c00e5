package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// Downsamples knows the policies that have aggregates of the rows of others.
type Downsamples interface {
	// Targets returns what there is of the rows of a policy.
	Targets(database, policy string) []Target
	// Segments returns the parts of a range for which rows of targets stand for rows of
	// the policy, and the parts of targets that do not, though the policy has lost its rows
	// or as it has fewer values.
	Segments(ask *Ask) ([]Segment, []Unused)
}

// Target is a policy that has aggregates of the rows of another, as one of its definitions
// makes them. A field F has a column for each function, named FUNCTION_F.
type Target struct {
	Policy  string
	Columns []string // functions
	Windows window.Windows
	Series  bool // rows are of one series each, with all its tags
	Present bool // rows may stand for those that the policy still has, but for estimates
	// ColumnsOf returns those of one field, or with "" those that all fields have.
	ColumnsOf func(field string) []string
}

// Column is a function of a field; with "" of all fields.
type Column struct{ Function, Field string }

// Has reports whether the target has a column.
func (t *Target) Has(c Column) bool { return slices.Contains(t.ColumnsOf(c.Field), c.Function) }

// Every returns how long windows of the target are at most.
func (t *Target) Every() time.Duration { return time.Duration(t.Windows.Every) }

// Ask says what is needed of the rows of a measurement.
type Ask struct {
	Database, Policy, Measurement string
	Range                         model.TimeRange
	Windows                       *window.Windows
	Columns                       []Column
	// Rows must keep Tags, or with AllBut all tags but these.
	Tags    []string
	AllBut  bool
	Refused string // why aggregates are not enough; "": they are
	// Fits, if it is set, returns why windows of a length do not answer; "": they do.
	Fits func(every time.Duration) string
	// Step is how long windows should be at most: the longest of these come first, and then
	// the shortest of the others, which stand for lost rows alone. 0: any length is as good,
	// so the longest come first.
	Step time.Duration
	// Values estimates how many values are to be read in a range of a target, or of the
	// policy if t is nil.
	Values func(t *Target, r model.TimeRange) int64
}

// Segment is a range of time of a target. It holds whole windows of the target, and may
// begin before and end after the range that was asked for.
type Segment struct {
	Target
	model.TimeRange
}

// Note says that rows of a policy are from a target. What a row is called is given.
func (s *Segment) Note(rows, policy string) string {
	return fmt.Sprintf("%s of %s %s are from the downsample %s, in windows of %s",
		rows, policy, times(s.TimeRange), s.Policy, &s.Windows)
}

// times says in words what times are in a range.
func times(r model.TimeRange) string {
	end := time.Unix(0, r.Max+1).UTC().Format(time.RFC3339)
	if r.Min < model.MinTime+int64(366*24*time.Hour) {
		return "before " + end
	}
	return "from " + time.Unix(0, r.Min).UTC().Format(time.RFC3339) + " to " + end
}

// Unused is a range of time of a target, and why its rows do not stand for those of the
// policy.
type Unused struct {
	Segment
	Why  string
	Lost bool // the policy does not have them
}

// Note says why a target does not answer for rows of a policy, which may be lost.
func (u *Unused) Note(rows, policy string) string {
	if !u.Lost {
		return fmt.Sprintf("%s of %s %s are not from the downsample %s: %s", rows, policy, times(u.TimeRange), u.Policy, u.Why)
	}
	return fmt.Sprintf("%s of %s %s are lost, and the downsample %s does not answer for them: %s",
		rows, policy, times(u.TimeRange), u.Policy, u.Why)
}

// StoredColumn returns the name of the column that a target has for a function of a field.
func StoredColumn(function, field string) string { return function + "_" + field }

// storedField returns the field that a column of a target is of. keeps says that the column
// has its type.
func (t *Target) storedField(column string) (field string, keeps, ok bool) {
	for _, name := range t.Columns {
		if field, ok := strings.CutPrefix(column, StoredColumn(name, "")); ok && t.Has(Column{name, field}) {
			f := function.Functions[name]
			return field, f.Filled && f.Gives == model.Unknown && !isSketch(name), true
		}
	}
	return "", false, false
}

// Estimates reports whether values that follow from a column are estimates.
func (c Column) Estimates() bool { return c.Function == partial.Kinds[partial.Ranks].Stored }

// isSketch reports whether a column has sketches, as text.
func isSketch(column string) bool {
	return column == partial.Kinds[partial.Ranks].Stored || column == partial.Kinds[partial.Sketch].Stored
}

// storedView is the view of a target.
type storedView struct {
	Target
	*openView
}

// aggregates reports whether measurements are read for aggregates only.
func aggregates(stmt *influxql.SelectStatement) bool {
	calls := false
	for _, f := range stmt.Fields {
		influxql.WalkFunc(f.Expr, func(n influxql.Node) {
			if c, ok := n.(*influxql.Call); ok && !expr.IsMathFunction(c.Name) {
				calls = true
			}
		})
	}
	for _, src := range stmt.Sources {
		switch s := src.(type) {
		case *influxql.SubQuery:
			if !aggregates(s.Statement) {
				return false
			}
		case *influxql.Measurement:
			if !calls {
				return false
			}
		}
	}
	return true
}

// openTargets opens the views of the targets of a policy.
func (x *Planner) openTargets(key viewKey, r model.TimeRange) error {
	if x.Downsamples == nil {
		return nil
	}
	for _, t := range x.Downsamples.Targets(key.database, key.policy) {
		wide := r
		wide.Min = model.MinTime
		if every := t.Windows.Every; r.Min > model.MinTime+every {
			wide.Min = r.Min - every
		}
		at := viewKey{key.database, t.Policy, t.Windows.Every}
		if x.views[at] == nil {
			if err := x.openView(at, wide); err != nil {
				return err
			}
		}
		x.targets[key] = append(x.targets[key], storedView{t, x.views[at]})
	}
	return nil
}

// shardsOf yields the shards of a source and of its targets.
func (x *Planner) shardsOf(m *influxql.Measurement) (out []scan.Shard) {
	key := viewKey{m.Database, m.RetentionPolicy, 0}
	out = x.views[key].shards
	for _, t := range x.targets[key] {
		out = append(slices.Clip(out), t.shards...)
	}
	return out
}

// storedTypes calls f for the fields of a measurement of which the targets of a source
// have columns, with the type of the field if a column keeps it, else with influxql.Unknown.
func (x *Planner) storedTypes(m *influxql.Measurement, name string, f func(field string, typ influxql.DataType) error) error {
	for _, t := range x.targets[viewKey{m.Database, m.RetentionPolicy, 0}] {
		for _, sh := range t.shards {
			for _, stored := range sh.Fields(name) {
				field, keeps, ok := t.storedField(stored.Key)
				if !ok {
					continue
				}
				typ := influxql.DataType(influxql.Unknown)
				if keeps {
					typ = expr.DataType(stored.Type)
				}
				if err := f(field, typ); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Stored returns what there is to read of a measurement in a target.
func (s *Source) Stored(t *Target, name string) *read.Measurement {
	for _, v := range s.targets {
		if v.Policy == t.Policy && v.Windows.Every == t.Windows.Every {
			return v.measurement(name)
		}
	}
	return &read.Measurement{Name: name}
}

// Targets returns the targets of the rows of a source.
func (s *Source) Targets() (out []Target) {
	for _, v := range s.targets {
		out = append(out, v.Target)
	}
	return out
}

// Downsampled reports whether a source of the level has targets.
func (l *Level) Downsampled() bool {
	return slices.ContainsFunc(l.Sources, func(s *Source) bool { return len(s.targets) > 0 })
}

// typesFields reports whether a select list says of what type a field is.
func typesFields(fields influxql.Fields) bool {
	says := false
	for _, f := range fields {
		influxql.WalkFunc(f.Expr, func(n influxql.Node) {
			if ref, ok := n.(*influxql.VarRef); ok {
				says = says || expr.FieldType(ref.Type) != model.Unknown
			}
		})
	}
	return says
}
