package query

import (
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
	if err := engine.Select(s.ctx, st, s.storage(), s.downsampled(st, s.selectOptions(), s.note), s.out.send); err != nil {
		return err
	}
	if s.req.Hints && !s.out.sent && st.Target == nil {
		s.hint(st)
	}
	return nil
}

// downsampled returns options with which a SELECT may read downsamples. note takes what is to
// say of them.
func (s *session) downsampled(st *influxql.SelectStatement, opt engine.Options, note func(engine.Note)) engine.Options {
	if use := s.opt.UseDownsamples; use != "" && !s.req.SourceOnly && st.Target == nil {
		opt.Downsamples = &downsample.Chooser{Use: use, Catalog: s.catalog(), Now: s.opt.Now(), Until: s.opt.CompleteUntil}
		opt.Note = note
	}
	return opt
}

// note passes on what is to say of downsamples: with Hints all of it, else what is missing.
func (s *session) note(n engine.Note) {
	if n.Unused && s.opt.Unused != nil {
		s.opt.Unused()
	}
	switch {
	case s.req.Hints:
		s.out.messages = append(s.out.messages, result.Message{Level: result.LevelInfo, Text: n.Text})
	case n.Unused && s.req.Unused != nil:
		s.req.Unused(n.Text)
	}
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
	t := result.NewTable("", column)
	opt := s.downsampled(stmt, s.selectOptions(), func(n engine.Note) { t.AddRow("DOWNSAMPLE: " + n.Text) })
	text, err := lines(s.ctx, stmt, s.storage(), opt)
	if err != nil {
		return err
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
