package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/read"
	"tsdbd/query/result"
)

// Explain returns the lines of EXPLAIN: what InfluxDB prints of a plan, an
// empty line, and the operators that would run. It reads no rows.
func Explain(ctx context.Context, stmt *influxql.SelectStatement, storage scan.Storage, opt Options) ([]string, error) {
	opt.MaxSelectSeries = 0 // no series is read
	x := newExec(ctx, storage, opt)
	defer x.release()
	r, err := x.plan(stmt)
	if err != nil {
		return nil, err
	}
	if err := r.openAll(); err != nil {
		return nil, err
	}
	parts, err := r.costs(nil)
	if err != nil || len(parts) == 0 {
		return []string{""}, err
	}
	var lines []string
	for _, part := range parts {
		lines = append(append(lines, part...), "")
	}
	root := &planNode{}
	r.describe(root)
	return root.lines(append(lines, "operators"), ""), nil
}

// openAll opens the level and those of its subqueries.
func (r *levelRun) openAll() error {
	for _, sub := range r.subs {
		if sub != nil {
			if err := sub.openAll(); err != nil {
				return err
			}
		}
	}
	if r.l.Range.Empty() {
		return nil
	}
	return r.open(r.l.Names)
}

// costs appends InfluxDB's lines for each aggregate of the level, or for the fields
// of a raw statement: the shards and series that it reads. The lines of subqueries
// come first.
func (r *levelRun) costs(parts [][]string) ([][]string, error) {
	for _, sub := range r.subs {
		if sub != nil {
			var err error
			if parts, err = sub.costs(parts); err != nil {
				return nil, err
			}
		}
	}
	if r.groups == nil {
		return parts, nil
	}
	l := r.l
	var aux, keys []string
	for _, ref := range l.Refs {
		aux, keys = append(aux, ref.String()), append(keys, ref.Val)
	}
	part := func(expression string, fields []string) error {
		if err := r.x.Check(); err != nil {
			return err
		}
		var shards, series uint64
		var cost scan.Cost
		for _, u := range r.units {
			if !u.Shard.TimeRange().Overlaps(l.Range) || u.Columns != nil {
				continue // only a transformation looks back to it, or the subquery has it
			}
			one, err := u.Shard.Cost(scan.Request{Measurement: u.Source.Name, Series: u.Series, Fields: fields, Range: l.Range})
			if err != nil {
				return err
			}
			cost.Add(one)
			shards++
			series += u.Series.GetCardinality()
		}
		if shards == 0 {
			return nil
		}
		lines := []string{"EXPRESSION: " + expression}
		if len(aux) > 0 {
			lines = append(lines, "AUXILIARY FIELDS: "+strings.Join(aux, ", "))
		}
		parts = append(parts, append(lines,
			fmt.Sprintf("NUMBER OF SHARDS: %d", shards), fmt.Sprintf("NUMBER OF SERIES: %d", series),
			fmt.Sprintf("CACHED VALUES: %d", cost.CachedValues), fmt.Sprintf("NUMBER OF FILES: %d", cost.Files),
			fmt.Sprintf("NUMBER OF BLOCKS: %d", cost.Blocks), fmt.Sprintf("SIZE OF BLOCKS: %d", cost.Bytes)))
		return nil
	}
	if len(l.Calls) == 0 {
		err := part("<nil>", keys)
		return parts, err
	}
	for _, c := range r.calls {
		c = c.innermost()
		if err := part(c.Expr.String(), append(slices.Clone(keys), c.Ref.Val)); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// Analyze returns the lines of EXPLAIN ANALYZE. It runs the statement and discards
// the rows. The lines show what each operator did, and what the cursors of each shard
// returned.
func Analyze(ctx context.Context, stmt *influxql.SelectStatement, storage scan.Storage, opt Options) ([]string, error) {
	start := time.Now()
	x := newExec(ctx, storage, opt)
	x.analyze(&profile{})
	defer x.release()
	r, err := x.plan(stmt)
	if err != nil {
		return nil, err
	}
	planned := time.Since(start)
	var series, rows int
	err = r.answer(func(out *result.Result) error {
		for _, t := range out.Series {
			rows += t.Rows
			if !t.Partial {
				series++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	total := time.Since(start)
	root := &planNode{}
	n := root.add("select")
	n.add("%s", stmt)
	n.add("series: %d", series)
	n.add("rows: %d", rows)
	n.add("planning_time: %s", read.ShortTime(planned))
	n.add("execution_time: %s", read.ShortTime(total-planned))
	n.add("total_time: %s", read.ShortTime(total))
	r.describe(n.add("operators"))
	x.prof.describeStorage(n.add("storage"))
	return root.lines([]string{"."}, ""), nil
}

// describe adds the level with its operators and subqueries to a plan, and what
// they did if there is a profile.
func (r *levelRun) describe(to *planNode) {
	n, p := to.add("%s", r.l.Statement), r.x.prof
	if r.groups != nil {
		if p != nil {
			n.text += fmt.Sprintf(": %s, %d series, %d rows", read.ShortTime(r.did.took), r.did.series, r.did.rows)
		}
		for _, o := range r.operators {
			on := o.describe(n)
			if p != nil {
				on.text += ": " + p.operators[o].String()
			}
		}
		for _, step := range r.did.steps {
			n.add("%s: %s", step.name, read.ShortTime(step.took))
		}
	}
	for i, sub := range r.subs {
		switch {
		case sub == nil:
		case r.passed[i] != nil:
			n.add("%s: its rows are read above", sub.l.Statement)
		default:
			sub.describe(n)
		}
	}
}

// describeSources adds the sources of the level to an operator of a plan.
func (r *levelRun) describeSources(n *planNode) {
	if len(r.units) > 0 {
		series := uint64(0)
		for _, u := range r.units {
			series += u.Series.GetCardinality()
		}
		n.add("%s, %d series, %s", counted(len(r.units), "shard"), series, counted(len(r.groups.Names), "group"))
		if rest := r.units[0].Filter; rest != nil {
			n.add("filter %s: row by row where statistics do not decide", rest)
		}
	}
	if r.takesRows() {
		n.add("rows of subqueries")
	}
}

// describe implements operator.
func (f *folder) describe(to *planNode) *planNode {
	n := to.add("fold %s", f.r.callsOf(func(c *call) bool { return c.scan == f.Plan }))
	f.r.describeSources(n)
	for _, text := range f.segments {
		n.add("%s", text)
	}
	switch dir := f.Direction(); {
	case dir > 0:
		n.add("oldest shard first, until every group has its value")
	case dir < 0:
		n.add("newest shard first, until every group has its value")
	case f.heads != nil:
		n.add("first windows: stops after %d or %d windows if LIMIT is satisfied", f.heads[0], f.heads[1])
	case !f.Windows.None() && !f.r.takesRows():
		n.add("%s", counted(int(f.Windows.Count(f.StartOf(f.first), f.Windows.Next(f.StartOf(f.last)))), "window"))
	}
	if groups := len(f.r.groups.Names); f.batched && groups > batchSize(groups) {
		n.add("groups in batches of up to %d", batchSize(groups))
	}
	if len(f.r.units) > 0 {
		n.add("chunks inside one window: %s", f.statistics())
	}
	return n
}

// statistics says for which chunks statistics are enough.
func (f *folder) statistics() string {
	chosen := false
	for _, s := range f.Slots {
		switch k := &partial.Kinds[s.Kind]; {
		case k.Stats == partial.NoStats:
			return "decoded, " + k.What + " have no statistics"
		case s.Type == model.String && s.Kind != partial.Count:
			return "decoded, strings have no statistics"
		case k.Stats == partial.AllOfStats && (s.Timed && !k.Timed || f.Aux > 0):
			chosen = true
		}
	}
	for _, u := range f.units {
		cs, ok := u.Bind(f.Refs)
		switch {
		case !ok:
		case slices.ContainsFunc(f.Slots, func(s partial.Slot) bool { return cs.Out[s.Col].Computed != nil }):
			return "decoded, computed columns have no statistics"
		case slices.ContainsFunc(f.Slots, func(s partial.Slot) bool { return cs.Out[s.Col].Cast }):
			return "by statistics, decoded in shards where a field has another type"
		}
	}
	if chosen {
		return "by statistics, decoded if they may hold a chosen row"
	}
	return "by statistics"
}

// describe implements operator.
func (rd *reader) describe(to *planNode) *planNode {
	l := rd.r.l
	names := make([]string, len(rd.refs))
	for i := range rd.refs {
		names[i] = rd.refs[i].String()
	}
	n := to.add("read %s", strings.Join(names, ", "))
	if len(l.Calls) > 0 {
		n.text += " for " + rd.r.callsOf(func(c *call) bool { return c.reader == rd })
	}
	rd.r.describeSources(n)
	if !rd.pieces || len(rd.r.groups.Names) > 1 || rd.r.sources > 1 || l.HasSubs() {
		if groups := len(rd.r.groups.Names); groups > 1 {
			n.add("groups in batches of up to %d", batchSize(groups))
		}
		if rd.limit > 0 {
			n.add("first %s of each series", counted(rd.limit, "row"))
		}
		return n
	}
	shards := [len(strategyTexts)]int{}
	for _, u := range rd.sources {
		shards[rd.strategy(u)]++
	}
	for how, k := range shards {
		if k > 0 {
			n.add("%s %s", counted(k, "shard"), strings.ReplaceAll(strategyTexts[how], "N", strconv.Itoa(rd.limit)))
		}
	}
	return n
}

// counted prints a number of things.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
