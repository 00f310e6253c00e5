package continuous

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/query"
)

// plan is a parsed continuous query.
type plan struct {
	text     string // as stored
	database string
	stmt     *influxql.SelectStatement
	interval time.Duration // of GROUP BY time
	offset   time.Duration
	every    time.Duration // time between runs
	back     time.Duration // FOR: what a run looks back over
	loc      *time.Location
}

// parse reads a stored CREATE CONTINUOUS QUERY.
func parse(text string) (*plan, error) {
	parsed, err := influxql.ParseStatement(text)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", text, err)
	}
	st, ok := parsed.(*influxql.CreateContinuousQueryStatement)
	if !ok {
		return nil, fmt.Errorf("%q is no continuous query", text)
	}
	if st.Source.IsRawQuery {
		return nil, errors.New("continuous queries must be aggregate queries")
	}
	p := &plan{text: text, database: st.Database, stmt: st.Source, every: st.ResampleEvery, back: st.ResampleFor, loc: st.Source.Location}
	if p.loc == nil {
		p.loc = time.UTC
	}
	if p.interval, err = st.Source.GroupByInterval(); err != nil {
		return nil, err
	}
	if p.interval <= 0 {
		return nil, errors.New("continuous queries must have GROUP BY time")
	}
	if p.offset, err = st.Source.GroupByOffset(); err != nil {
		return nil, err
	}
	if p.every <= 0 {
		p.every = p.interval
	}
	if p.back <= 0 {
		p.back = max(p.interval, p.every)
	}
	return p, nil
}

// truncate returns the beginning of the step that holds t, steps counted from
// the epoch in the zone's time of day, moved by offset.
func truncate(t time.Time, step, offset time.Duration, loc *time.Location) time.Time {
	_, zone := t.In(loc).Zone()
	n := t.UnixNano() + int64(zone)*int64(time.Second) - int64(offset)
	rest := n % int64(step)
	if rest < 0 {
		rest += int64(step)
	}
	start := t.Add(-time.Duration(rest))
	// The zone's offset may be another at the beginning.
	if _, then := start.In(loc).Zone(); then != zone {
		if shift := time.Duration(zone-then) * time.Second; shift.Abs() < step {
			start = start.Add(shift)
		}
	}
	return start
}

// due tells whether a run is due at now, the previous having been the one of
// last (zero: none), and over which range [start, end). run names it: runs are
// a multiple of EVERY apart.
func (p *plan) due(now, last time.Time) (start, end, run time.Time, ok bool) {
	run = truncate(now, p.every, p.offset, p.loc)
	if !last.IsZero() && !run.After(last) {
		return start, end, run, false
	}
	// With EVERY below the interval, the window under way is computed as well.
	end = p.floor(run.Add(p.interval - min(p.every, p.interval)))
	start = p.floor(run.Add(p.interval - p.back - 1))
	if !last.IsZero() {
		// Windows that ended since the last run, or were under way then.
		if covered := p.floor(last); covered.Before(start) {
			start = covered
		}
	}
	return start, end, run, start.Before(end)
}

// floor returns the beginning of the window that holds t.
func (p *plan) floor(t time.Time) time.Time { return truncate(t, p.interval, p.offset, p.loc) }

// statement returns the SELECT over [start, end), which takes the place of all
// conditions on time.
func (p *plan) statement(start, end time.Time) (*influxql.Query, error) {
	stmt := p.stmt.Clone()
	rest, err := query.SplitTime(stmt.Condition, end, p.loc)
	if err != nil {
		return nil, err
	}
	bound := func(op influxql.Token, t time.Time) influxql.Expr {
		return &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: "time"}, RHS: &influxql.TimeLiteral{Val: t.UTC()}}
	}
	var cond influxql.Expr = &influxql.BinaryExpr{Op: influxql.AND, LHS: bound(influxql.GTE, start), RHS: bound(influxql.LT, end)}
	if rest.Expr != nil {
		cond = &influxql.BinaryExpr{Op: influxql.AND, LHS: &influxql.ParenExpr{Expr: rest.Expr}, RHS: cond}
	}
	stmt.Condition = cond
	return &influxql.Query{Statements: influxql.Statements{stmt}}, nil
}

// key names a query in the state file. A query that is dropped and made anew
// with another text begins anew.
func key(database, name, text string) string {
	return strings.Join([]string{database, name, text}, "\x00")
}
