package query

import (
	"errors"
	"fmt"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/admission"
	"tsdbd/query/engine"
	"tsdbd/query/engine/plan"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
	"tsdbd/query/window"
)

// ContinuousQuery is a continuous query of the catalog, understood. It is not
// changed after ParseContinuous.
type ContinuousQuery struct {
	Database string
	// Every and For are those of RESAMPLE; 0 is not given.
	Every, For time.Duration
	// Interval is that of GROUP BY time.
	Interval time.Duration

	stmt    *influxql.SelectStatement
	windows window.Windows
}

// ParseContinuous reads the stored text of a CREATE CONTINUOUS QUERY.
func ParseContinuous(text string) (*ContinuousQuery, error) {
	parsed, err := syntax.Parse(text, nil)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", text, err)
	}
	var st *influxql.CreateContinuousQueryStatement
	if len(parsed.Statements) == 1 {
		st, _ = parsed.Statements[0].(*influxql.CreateContinuousQueryStatement)
	}
	if st == nil {
		return nil, fmt.Errorf("%q is no continuous query", text)
	}
	if st.Source.IsRawQuery {
		return nil, errors.New("continuous queries must be aggregate queries")
	}
	q := &ContinuousQuery{Database: st.Database, Every: st.ResampleEvery, For: st.ResampleFor, stmt: st.Source}
	if q.windows, err = plan.Windows(st.Source, time.Time{}); err != nil {
		return nil, err
	}
	if q.windows.None() {
		return nil, errors.New("continuous queries must have GROUP BY time")
	}
	q.Interval = time.Duration(q.windows.Every)
	return q, nil
}

// Window returns the start of the window of GROUP BY time that holds t.
func (q *ContinuousQuery) Window(t time.Time) time.Time {
	return time.Unix(0, q.windows.Start(t.UnixNano()))
}

// Next returns the start of the window after the one that starts at start.
func (q *ContinuousQuery) Next(start time.Time) time.Time {
	return time.Unix(0, q.windows.Next(start.UnixNano()))
}

// Step returns the start of the step of length every that holds t; steps have
// the zone and the offset of the windows.
func (q *ContinuousQuery) Step(t time.Time, every time.Duration) time.Time {
	w := window.Windows{Every: int64(every), Shift: q.windows.Shift, Loc: q.windows.Loc}
	return time.Unix(0, w.Start(t.UnixNano()))
}

// Over returns the SELECT over [start, end), which takes the place of all
// conditions on time.
func (q *ContinuousQuery) Over(start, end time.Time) (*influxql.SelectStatement, error) {
	stmt := syntax.Clone(q.stmt)
	rest, err := expr.SplitTime(stmt.Condition, end, stmt.Location)
	if err != nil {
		return nil, err
	}
	stmt.Condition = expr.And(expr.TimeBound(influxql.GTE, start), expr.TimeBound(influxql.LT, end))
	if rest.Expr != nil {
		stmt.Condition = expr.And(&influxql.ParenExpr{Expr: rest.Expr}, stmt.Condition)
	}
	return stmt, nil
}

// runWindows is how many windows EXECUTE CONTINUOUS QUERY computes at once when
// they do not depend on each other.
const runWindows = 1000

// executeContinuous computes every window that the range touches, whole. What a
// failure or the end of the context leaves is complete up to a window.
func (s *session) executeContinuous(st *syntax.ExecuteContinuous) error {
	db, err := s.showing().Database(st.Database)
	if err != nil {
		return err
	}
	stored := db.ContinuousQuery(st.Name)
	if stored == nil {
		return fmt.Errorf("continuous query not found: %s", st.Name)
	}
	q, err := ParseContinuous(stored.Query)
	if err != nil {
		return err
	}
	start, end, err := bounds(st, q, s.opt.Now())
	if err != nil {
		return err
	}
	var windows, written int64
	most := 1
	if plan.Independent(q.stmt) {
		most = runWindows
	}
	for start.Before(end) {
		upTo, n := q.Next(start), 1
		for n < most && upTo.Before(end) {
			upTo = q.Next(upTo)
			n++
		}
		if !upTo.After(start) {
			return fmt.Errorf("no window after %s", start.UTC().Format(time.RFC3339))
		}
		next, err := s.firstData(q, start)
		if err != nil {
			return err
		}
		if !next.Before(upTo) { // nothing is stored up to there
			start = q.Window(next)
			continue
		}
		got, err := s.runContinuous(q, start, upTo)
		if errors.Is(err, admission.ErrMemory) && n > 1 {
			most = n / 2
			continue
		}
		if err != nil {
			return fmt.Errorf("continuous query %s, windows from %s: %w (%d points of %d windows are written)",
				st.Name, start.UTC().Format(time.RFC3339), err, written, windows)
		}
		start = upTo
		windows += int64(n)
		written += got
	}
	return s.out.together([]*result.Series{result.WrittenTable([]string{"windows", "written"}, windows, written)})
}

// bounds returns the windows to compute: the start of the first and the end of
// the last.
func bounds(st *syntax.ExecuteContinuous, q *ContinuousQuery, now time.Time) (start, end time.Time, err error) {
	if st.From == nil {
		end = q.Window(now)
		return q.Window(end.Add(-1)), end, nil
	}
	bound := func(op influxql.Token, t influxql.Expr) influxql.Expr {
		return &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: "time"}, RHS: t}
	}
	c, err := expr.SplitTime(expr.And(bound(influxql.GTE, st.From), bound(influxql.LT, st.To)), now, q.stmt.Location)
	if err != nil {
		return start, end, err
	}
	if c.Expr != nil {
		return start, end, fmt.Errorf("FROM and TO take times, not %s", c.Expr)
	}
	if c.Range.Empty() {
		return start, end, errors.New("FROM must be before TO")
	}
	return q.Window(time.Unix(0, c.Range.Min)), q.Next(q.Window(time.Unix(0, c.Range.Max))), nil
}

// firstData returns the first time from t on at which a policy that the query
// reads has a shard group, or the end of time.
func (s *session) firstData(q *ContinuousQuery, t time.Time) (time.Time, error) {
	stmt := syntax.Clone(q.stmt)
	if err := syntax.Resolve(stmt, s.catalog(), q.Database, ""); err != nil {
		return t, err
	}
	first := int64(model.MaxTime)
	influxql.WalkFunc(stmt.Sources, func(n influxql.Node) {
		m, ok := n.(*influxql.Measurement)
		if !ok {
			return
		}
		policy, err := s.catalog().RetentionPolicy(m.Database, m.RetentionPolicy)
		if err != nil {
			return
		}
		for _, g := range policy.ShardGroups {
			if g.End > t.UnixNano() {
				first = min(first, max(g.Start, t.UnixNano()))
			}
		}
	})
	return time.Unix(0, first), nil
}

// runContinuous runs the query over [start, end) and returns how many points it
// wrote.
func (s *session) runContinuous(q *ContinuousQuery, start, end time.Time) (int64, error) {
	stmt, err := q.Over(start, end)
	if err != nil {
		return 0, err
	}
	if err := syntax.RefuseSystemSources(stmt); err != nil {
		return 0, err
	}
	if err := syntax.Resolve(stmt, s.catalog(), q.Database, ""); err != nil {
		return 0, err
	}
	var written int64
	err = engine.Select(s.ctx, stmt, s.opt.Storage, s.selectOptions(), func(r *result.Result) error {
		written += r.Series[0].Values[1].Ints[0]
		return nil
	})
	return written, err
}
