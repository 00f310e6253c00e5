package query

import (
	"github.com/influxdata/influxql"

	"tsdbd/query/result"
)

// explain runs EXPLAIN and EXPLAIN ANALYZE.
func (s *session) explain(st *influxql.ExplainStatement) error {
	stmt := st.Statement.Clone()
	stmt.Target = nil // nothing is written
	column, lines := "QUERY PLAN", explainSelect
	if st.Analyze {
		column, lines = "EXPLAIN ANALYZE", analyzeSelect
	}
	text, err := lines(s.ctx, stmt, s.opt.Storage, s.selectOptions())
	if err != nil {
		return err
	}
	t := result.StringTable("", column)
	for _, line := range text {
		t.AddRow(line)
	}
	return s.out.whole([]*result.Series{t})
}
