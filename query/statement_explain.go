package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model/scan"
	"tsdbd/query/result"
)

// explain shows how a SELECT is taken apart: for each aggregate, or for the
// fields of a raw query, which shards and series it reads. EXPLAIN ANALYZE runs
// the statement, keeps the rows to itself and shows how long it took.
func (s *session) explain(st *influxql.ExplainStatement) error {
	stmt := st.Statement.Clone()
	stmt.Target = nil // nothing is written
	opt := s.selectOptions()
	if st.Analyze {
		return s.explainAnalyze(stmt, opt)
	}
	x := newExec(s.ctx, s.opt.Storage, opt)
	defer x.release()
	l, err := x.plan(stmt)
	if err != nil {
		return err
	}
	plan, err := explainLevel(l)
	if err != nil {
		return err
	}
	t := result.StringTable("", "QUERY PLAN")
	if len(plan) == 0 {
		t.AddRow("")
	}
	for i, part := range plan {
		if i > 0 {
			t.AddRow("")
		}
		for _, line := range part {
			t.AddRow(line)
		}
	}
	return s.out.whole([]*result.Series{t})
}

// explainLevel returns the lines of each part of a plan, subqueries included.
func explainLevel(l *level) ([][]string, error) {
	var parts [][]string
	type reading struct {
		expr   string
		fields []string
		aux    []string
	}
	var aux, auxKeys []string
	for _, ref := range l.refs {
		aux, auxKeys = append(aux, ref.String()), append(auxKeys, ref.Val)
	}
	var readings []reading
	for _, c := range l.calls {
		for c.inner != nil {
			c = c.inner
		}
		readings = append(readings, reading{c.expr.String(), append(slices.Clone(auxKeys), c.ref.Val), aux})
	}
	if len(readings) == 0 {
		readings = []reading{{"<nil>", auxKeys, aux}}
	}
	for _, src := range l.sources {
		if src.sub != nil {
			sub, err := explainLevel(src.sub)
			if err != nil {
				return nil, err
			}
			parts = append(parts, sub...)
		}
	}
	for _, r := range readings {
		var shards, series uint64
		var cost scan.Cost
		for _, src := range l.sources {
			for _, shard := range src.shards {
				if !shard.TimeRange().Overlaps(l.rng) {
					continue
				}
				tags, _ := SplitTags(l.cond, isFieldRef)
				set, err := shard.Select(l.x.ctx, src.name, tags)
				if err != nil {
					return nil, err
				}
				if set.IsEmpty() {
					continue
				}
				shards++
				series += set.GetCardinality()
				one, err := shard.Cost(scan.Request{Measurement: src.name, Series: set, Fields: r.fields, Range: l.rng})
				if err != nil {
					return nil, err
				}
				cost.Add(one)
			}
		}
		if shards == 0 {
			continue
		}
		lines := []string{"EXPRESSION: " + r.expr}
		if len(r.aux) > 0 {
			lines = append(lines, "AUXILIARY FIELDS: "+strings.Join(r.aux, ", "))
		}
		lines = append(lines, fmt.Sprintf("NUMBER OF SHARDS: %d", shards), fmt.Sprintf("NUMBER OF SERIES: %d", series),
			fmt.Sprintf("CACHED VALUES: %d", cost.CachedValues), fmt.Sprintf("NUMBER OF FILES: %d", cost.Files),
			fmt.Sprintf("NUMBER OF BLOCKS: %d", cost.Blocks), fmt.Sprintf("SIZE OF BLOCKS: %d", cost.Bytes))
		parts = append(parts, lines)
	}
	return parts, nil
}

// explainAnalyze runs a statement, keeps its rows to itself and shows what it
// did: the time of its operators, level by level, and what the cursors of each
// shard gave.
func (s *session) explainAnalyze(stmt *influxql.SelectStatement, opt SelectOptions) error {
	start := time.Now()
	prof := &profile{}
	x := newExec(s.ctx, profiledStorage{s.opt.Storage, prof}, opt)
	x.prof = prof
	defer x.release()
	l, err := x.plan(stmt)
	if err != nil {
		return err
	}
	planned := time.Since(start)
	var series, rows int
	err = x.answer(l, func(r *result.Result) error {
		for _, t := range r.Series {
			rows += t.Rows
			if !t.Partial {
				series++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	total := time.Since(start)
	root := &planNode{}
	n := root.add("select")
	n.add("%s", stmt)
	n.add("series: %d", series)
	n.add("rows: %d", rows)
	n.add("planning_time: %s", shortTime(planned))
	n.add("execution_time: %s", shortTime(total-planned))
	n.add("total_time: %s", shortTime(total))
	prof.describe(n)
	t := result.StringTable("", "EXPLAIN ANALYZE")
	for _, line := range root.lines([]string{"."}, "") {
		t.AddRow(line)
	}
	return s.out.whole([]*result.Series{t})
}
