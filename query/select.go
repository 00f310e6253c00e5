package query

import (
	"cmp"
	"errors"

	"github.com/influxdata/influxql"

	"tsdbd/query/downsample"
	"tsdbd/query/engine"
	"tsdbd/query/hint"
	"tsdbd/query/result"
)

// selectStatement runs a SELECT. Its sources are normalized. With Hints, an answer without
// rows says why.
func (s *session) selectStatement(st *influxql.SelectStatement) error {
	if s.req.Partial && st.Target != nil {
		return errors.New("SELECT INTO takes no partial=true: what is computed from a part of the points must not be stored")
	}
	run, note, err := s.rewritten(st)
	if err != nil {
		return err
	}
	if note != "" && s.req.Hints {
		s.out.messages = append(s.out.messages, result.Message{Level: result.LevelInfo, Text: note})
	}
	if err := engine.Select(s.ctx, run, s.storage(), s.selectOptions(), s.out.send); err != nil {
		return err
	}
	if s.req.Hints && !s.out.sent && st.Target == nil {
		s.hint(st)
	}
	return nil
}

// rewritten returns what runs for a SELECT: the statement itself, or one that takes part of
// its rows from a downsample, and a note on that.
func (s *session) rewritten(st *influxql.SelectStatement) (run *influxql.SelectStatement, note string, err error) {
	if s.req.SourceOnly {
		return st, "", nil
	}
	run, note, err = downsample.Rewrite(st, downsample.Options{
		Use: s.opt.UseDownsamples, Catalog: s.catalog(), Storage: s.storage(), Now: s.opt.Now(), Until: s.opt.CompleteUntil,
	})
	return cmp.Or(run, st), note, err
}

// hint adds to the messages of a statement why its answer has no rows.
func (s *session) hint(st *influxql.SelectStatement) {
	ask := hint.Asker{Storage: s.opt.Storage.Partial(), Now: s.opt.Now(), Keep: s.claim.Keep}
	for _, text := range ask.Empty(s.ctx, st) {
		s.out.messages = append(s.out.messages, result.Message{Level: result.LevelInfo, Text: text})
	}
}

// explain runs EXPLAIN and EXPLAIN ANALYZE.
func (s *session) explain(st *influxql.ExplainStatement) error {
	stmt := st.Statement.Clone()
	stmt.Target = nil // nothing is written
	column, lines := "QUERY PLAN", engine.Explain
	if st.Analyze {
		column, lines = "EXPLAIN ANALYZE", engine.Analyze
	}
	stmt, note, err := s.rewritten(stmt)
	if err != nil {
		return err
	}
	text, err := lines(s.ctx, stmt, s.storage(), s.selectOptions())
	if err != nil {
		return err
	}
	t := result.NewTable("", column)
	if note != "" {
		t.AddRow("DOWNSAMPLE: " + note)
	}
	for _, line := range text {
		t.AddRow(line)
	}
	return s.out.together([]*result.Series{t})
}

// selectOptions returns the options of a SELECT of this request.
func (s *session) selectOptions() engine.Options {
	l := s.queries.Limits()
	if s.req.Unlimited {
		l.MaxSelectPoint, l.MaxSelectSeries, l.MaxSelectBuckets = 0, 0, 0
	}
	return engine.Options{
		ChunkSize: s.req.ChunkSize, Now: s.opt.Now(),
		MaxSelectPoint: l.MaxSelectPoint, MaxSelectSeries: l.MaxSelectSeries, MaxSelectBuckets: l.MaxSelectBuckets,
		MemoryBytes: l.MemoryBytes, Account: s.req.Account, Into: s.opt.Into, Workers: s.workers, Turn: s.req.Turn,
		Warn: s.warn,
	}
}
