package downsample

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/plan"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// Use says for which windows a SELECT may take a downsample.
type Use string

// The uses.
const (
	Off      Use = "off"
	Expired  Use = "expired"  // windows that the source has lost by its age
	Complete Use = "complete" // all windows that are computed
)

// Uses are all uses.
var Uses = []Use{Off, Expired, Complete}

// Options are what Rewrite needs to know. All of them are required.
type Options struct {
	Use     Use
	Catalog *meta.Data
	Storage scan.Storage
	Now     time.Time
	// Until returns up to where all windows of a measurement are computed, end at most.
	Until func(id uint64, measurement string, end int64) int64
}

// errNo says that a downsample cannot answer a statement.
var errNo = errors.New("not by this downsample")

// Rewrite returns a SELECT that takes part of the range of st from a downsample, and a
// note on it. It returns nil if no downsample can answer, or need not. The names of st
// are resolved.
func Rewrite(st *influxql.SelectStatement, opt Options) (out *influxql.SelectStatement, note string, err error) {
	if opt.Use == Off || opt.Use == "" || st.Target != nil || st.IsRawQuery || len(st.Sources) != 1 {
		return nil, "", nil
	}
	if st.SLimit > 0 || st.SOffset > 0 {
		return nil, "", nil // each subquery would count series of its own
	}
	m, ok := st.Sources[0].(*influxql.Measurement)
	if !ok || m.Regex != nil || m.SystemIterator != "" {
		return nil, "", nil
	}
	db := opt.Catalog.Database(m.Database)
	if db == nil || len(db.Downsamples) == 0 {
		return nil, "", nil
	}
	// The longest windows have the fewest rows.
	list := slices.SortedFunc(slices.Values(db.Downsamples), func(a, b meta.Downsample) int { return cmp.Compare(b.Current().Every, a.Current().Every) })
	for i := range list {
		if list[i].From != m.RetentionPolicy || list[i].Current().Where != "" || len(list[i].Definitions) > 1 || list[i].Current().Grouped || len(list[i].Current().Without) > 0 || !list[i].Takes()(m.Name) {
			continue
		}
		r := &rewriter{opt: opt, st: st, m: m, db: db, d: &list[i], columns: map[string]bool{}}
		out, err := r.rewrite()
		if errors.Is(err, errNo) {
			continue
		}
		return out, r.note(), err
	}
	return nil, "", nil
}

// rewriter rewrites a SELECT for one downsample.
type rewriter struct {
	opt Options
	st  *influxql.SelectStatement
	m   *influxql.Measurement
	db  *meta.Database
	d   *meta.Downsample

	windows  window.Windows
	where    influxql.Expr // without time
	from, to int64         // what is read of the target: [from, to)
	covered  int64         // the source has all rows from there on
	first    int64         // start of the range
	bounded  bool          // the range has a start
	last     int64         // end of the range, inclusive
	single   bool          // each group of the answer is a row of the target

	columns map[string]bool // of the subqueries, by what they are named in the target
	asked   []asked         // of the source
	targets influxql.Fields // select lists of the subqueries
	sources influxql.Fields
}

// asked is a call of the select list.
type asked struct{ function, field string }

func (r *rewriter) note() string {
	return fmt.Sprintf("rows of %s before %s are from the downsample %s, in windows of %s",
		r.d.From, time.Unix(0, r.to).UTC().Format(time.RFC3339), r.d.Into, influxql.FormatDuration(r.d.Current().Every))
}

func (r *rewriter) rewrite() (*influxql.SelectStatement, error) {
	var err error
	if r.windows, err = plan.Windows(r.st, r.opt.Now); err != nil {
		return nil, errNo // the statement itself has the error
	}
	if err := r.bounds(); err != nil {
		return nil, err
	}
	dims, err := r.dimensions()
	if err != nil {
		return nil, err
	}
	out := r.st.Clone()
	if err := r.fields(out); err != nil {
		return nil, err
	}
	if err := r.names(); err != nil {
		return nil, err
	}
	out.Sources = nil
	every := &influxql.Call{Name: "time", Args: []influxql.Expr{&influxql.DurationLiteral{Val: r.d.Current().Every}}}
	group := append(influxql.Dimensions{{Expr: every}}, dims...)
	add := func(sub influxql.SelectStatement, policy string, from, to int64) {
		if from >= to {
			return
		}
		bound := func(op influxql.Token, at int64) influxql.Expr {
			return &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: "time"}, RHS: &influxql.IntegerLiteral{Val: at}}
		}
		sub.Condition = bound(influxql.LT, to)
		if from > model.MinTime {
			sub.Condition = expr.And(sub.Condition, bound(influxql.GTE, from))
		}
		if r.where != nil {
			sub.Condition = expr.And(sub.Condition, &influxql.ParenExpr{Expr: r.where})
		}
		sub.Sources = influxql.Sources{&influxql.Measurement{Database: r.m.Database, RetentionPolicy: policy, Name: r.m.Name}}
		out.Sources = append(out.Sources, &influxql.SubQuery{Statement: sub.Clone()}) // shares nothing with the others
	}
	target := influxql.SelectStatement{Fields: r.targets, Dimensions: dims, IsRawQuery: true}
	source := influxql.SelectStatement{Fields: r.sources, Dimensions: group, Fill: influxql.NoFill}
	add(source, r.d.From, r.first, min(r.from, r.last+1))
	add(target, r.d.Into, r.from, r.to)
	add(source, r.d.From, max(r.to, r.first), r.last+1)
	out.Condition = expr.TimeBound(influxql.LTE, time.Unix(0, r.last))
	if r.bounded {
		out.Condition = expr.And(expr.TimeBound(influxql.GTE, time.Unix(0, min(r.first, r.from))), out.Condition)
	}
	return out, nil
}

// bounds finds the part of the range that comes from the target.
func (r *rewriter) bounds() error {
	c, err := expr.SplitTime(r.st.Condition, r.opt.Now, r.st.Location)
	if err != nil || c.Range.Empty() {
		return errNo
	}
	r.where, r.first, r.last, r.bounded = c.Expr, c.Range.Min, c.Range.Max, c.HasMin
	if !c.HasMax {
		r.last = max(r.first, min(r.last, r.opt.Now.UnixNano())) // as of every GROUP BY time
	}
	if !r.windows.Divided(int64(r.d.Current().Every), max(r.first, r.begin()), r.last) {
		return errNo
	}
	// A window that the start of time cuts off is not computed, and its row has another time
	// in a subquery.
	begin := r.d.End(model.MinTime)
	if groups := r.db.RetentionPolicy(r.d.From).ShardGroups; r.first < begin && len(groups) > 0 && groups[0].Start < begin {
		return errNo
	}
	r.covered = model.MinTime
	if policy := r.db.RetentionPolicy(r.d.From); policy != nil && policy.Expired != 0 {
		r.covered = r.d.Ceil(policy.Expired)
	}
	r.to = r.covered
	if r.opt.Use == Complete {
		r.to = max(r.covered, r.opt.Until(r.d.ID, r.m.Name, r.d.Start(r.opt.Now.UnixNano())))
	}
	r.from = r.first
	if r.bounded {
		r.from = r.d.Start(r.first)
		if r.first >= r.covered {
			r.from = r.d.Ceil(r.first)
		}
	}
	if kept := r.kept(); kept > r.covered {
		if r.from < r.covered {
			r.to = r.covered
		} else {
			r.from = max(r.from, kept)
		}
	}
	if end := r.last + 1; end < r.to {
		if r.to = r.d.Ceil(end); r.to > r.covered {
			r.to = max(r.covered, r.d.Start(end))
		}
	}
	if r.from >= r.to {
		return errNo
	}
	return nil
}

// begin returns where the first rows of both policies may be.
func (r *rewriter) begin() int64 {
	begin := int64(model.MaxTime)
	for _, policy := range []string{r.d.From, r.d.Into} {
		if groups := r.db.RetentionPolicy(policy).ShardGroups; len(groups) > 0 {
			begin = min(begin, groups[0].Start)
		}
	}
	return begin
}

// kept returns the start of the first window that the target keeps: it may keep rows for a
// shorter time than the source, and earlier windows are not computed.
func (r *rewriter) kept() int64 {
	kept := int64(model.MinTime)
	policy := r.db.RetentionPolicy(r.d.Into)
	if policy.Expired != 0 {
		kept = r.d.Ceil(policy.Expired)
	}
	if policy.Duration > 0 {
		kept = max(kept, r.d.Ceil(r.opt.Now.Add(-policy.Duration).UnixNano()))
	}
	return kept
}

// dimensions returns the tags that the subqueries group by.
func (r *rewriter) dimensions() (dims influxql.Dimensions, err error) {
	all := false
	for _, d := range r.st.Dimensions {
		switch e := d.Expr.(type) {
		case *influxql.VarRef:
			dims = append(dims, &influxql.Dimension{Expr: &influxql.VarRef{Val: e.Val}})
		case *influxql.Wildcard:
			all = true
		case *influxql.Call: // time
		default:
			return nil, errNo
		}
	}
	if all {
		r.single = r.windows.Every == int64(r.d.Current().Every) && r.windows.Loc == nil
		return influxql.Dimensions{{Expr: &influxql.Wildcard{}}}, nil
	}
	return dims, nil
}

// fields rewrites the select list.
func (r *rewriter) fields(out *influxql.SelectStatement) error {
	names := r.st.ColumnNames()[1:]
	counts, others := 0, 0
	for i, f := range out.Fields {
		var err error
		if f.Expr, err = r.expression(f.Expr, false, &counts, &others); err != nil {
			return err
		}
		f.Alias = names[i]
	}
	switch {
	case len(r.columns) == 0:
		return errNo
	case out.Fill != influxql.NullFill:
	case counts > 0 && (others > 0 || slices.ContainsFunc(r.asked, func(a asked) bool { return a.field != r.asked[0].field })):
		// Counts are 0 in windows without rows, the others null, and so are counts of a
		// field that no row of the group has.
		return errNo
	case counts > 0:
		out.Fill, out.FillValue = influxql.NumberFill, int64(0)
	}
	return nil
}

// expression rewrites a part of the select list. Inside a call there is no arithmetic.
func (r *rewriter) expression(e influxql.Expr, inside bool, counts, others *int) (_ influxql.Expr, err error) {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		e.Expr, err = r.expression(e.Expr, inside, counts, others)
		return e, err
	case *influxql.BinaryExpr:
		if e.LHS, err = r.expression(e.LHS, inside, counts, others); err == nil {
			e.RHS, err = r.expression(e.RHS, inside, counts, others)
		}
		return e, err
	case *influxql.IntegerLiteral, *influxql.NumberLiteral, *influxql.UnsignedLiteral, *influxql.DurationLiteral, *influxql.StringLiteral:
		return e, nil
	case *influxql.Call:
		if len(e.Args) == 0 {
			return nil, errNo
		}
		if ref, ok := e.Args[0].(*influxql.VarRef); ok {
			if len(e.Args) > 1 || ref.Type != influxql.Unknown {
				return nil, errNo
			}
			if e.Name == "count" {
				*counts++
			} else {
				*others++
			}
			r.asked = append(r.asked, asked{e.Name, ref.Val})
			return r.call(e.Name, ref.Val, inside)
		}
		if _, ok := e.Args[0].(*influxql.Call); !ok || e.Name == "count" || function.Functions[e.Name].LooksBack {
			return nil, errNo // count(distinct()), and what sees a window before the range
		}
		*others++ // null in windows without rows
		for i := range e.Args {
			if e.Args[i], err = r.expression(e.Args[i], true, counts, others); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
	return nil, errNo
}

// call returns what a call becomes over the aggregates of both subqueries.
func (r *rewriter) call(name, field string, inside bool) (influxql.Expr, error) {
	has := func(f string) bool { return slices.Contains(r.d.Current().Columns(), f) }
	ref := func(name string) *influxql.VarRef { return &influxql.VarRef{Val: name} }
	over := func(f string, arg *influxql.VarRef) influxql.Expr {
		return &influxql.Call{Name: f, Args: []influxql.Expr{arg}}
	}
	// column adds a column to both subqueries.
	column := func(as string, target, source influxql.Expr) *influxql.VarRef {
		as += "_" + field
		if !r.columns[as] {
			r.columns[as] = true
			r.targets = append(r.targets, &influxql.Field{Expr: target, Alias: as})
			r.sources = append(r.sources, &influxql.Field{Expr: source, Alias: as})
		}
		return ref(as)
	}
	stored := func(f string) *influxql.VarRef { return column(f, ref(f+"_"+field), over(f, ref(field))) }
	times := func(a, b influxql.Expr) influxql.Expr { return &influxql.BinaryExpr{Op: influxql.MUL, LHS: a, RHS: b} }
	switch {
	case name == "count" && has("count"):
		return over("sum", stored("count")), nil
	case name == "max" && has("max"), name == "min" && has("min"), name == "sum" && has("sum"):
		return over(name, stored(name)), nil
	case r.single && has(name):
		return over("last", stored(name)), nil
	case name == "mean" && !inside && has("count") && (has("sum") || has("mean")) &&
		(r.st.Fill == influxql.NullFill || r.st.Fill == influxql.NoFill || r.st.Fill == influxql.PreviousFill):
		// The sums of windows are added as floats, which do not wrap.
		one := &influxql.NumberLiteral{Val: 1}
		target, source := times(ref("sum_"+field), one), times(over("sum", ref(field)), one)
		if !has("sum") {
			target, source = times(ref("mean_"+field), ref("count_"+field)), times(over("mean", ref(field)), over("count", ref(field)))
		}
		total := over("sum", column("total", target, source))
		return &influxql.ParenExpr{Expr: &influxql.BinaryExpr{Op: influxql.DIV, LHS: total, RHS: over("sum", stored("count"))}}, nil
	}
	return nil, errNo
}

// names checks that condition and dimensions are about tags, and that the fields are
// there and have types that the calls accept. All other calls are for the source to answer
// or to refuse.
func (r *rewriter) names() error {
	tags, fields := map[string]bool{}, map[string]bool{}
	refused := false
	for _, policy := range []string{r.d.From, r.d.Into} {
		view, err := r.opt.Storage.View(r.m.Database, policy, model.TimeRange{Min: r.first, Max: r.last})
		if err != nil {
			return err
		}
		for _, sh := range view.Shards() {
			for _, f := range sh.Fields(r.m.Name) {
				key := f.Key
				if policy == r.d.Into {
					_, key, _ = strings.Cut(key, "_")
					if r.first >= r.covered {
						continue
					}
				}
				fields[key] = true
				refused = refused || policy == r.d.From && slices.ContainsFunc(r.asked, func(a asked) bool {
					takes := function.Functions[a.function]
					return a.field == key && !takes.Accepts(f.Type)
				})
			}
			keys, err := sh.TagKeys(r.m.Name)
			if err != nil {
				view.Release()
				return err
			}
			for _, k := range keys {
				tags[k] = true
			}
		}
		view.Release()
	}
	no := refused || slices.ContainsFunc(r.asked, func(a asked) bool { return !fields[a.field] })
	ref := func(e *influxql.VarRef) { no = no || !tags[e.Val] || fields[e.Val] || e.Type == influxql.AnyField }
	if r.where != nil {
		influxql.WalkFunc(r.where, func(n influxql.Node) {
			if e, ok := n.(*influxql.VarRef); ok {
				ref(e)
			}
		})
	}
	for _, d := range r.st.Dimensions {
		if e, ok := d.Expr.(*influxql.VarRef); ok {
			no = no || fields[e.Val]
		}
	}
	if no {
		return errNo
	}
	return nil
}
