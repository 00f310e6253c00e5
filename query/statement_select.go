package query

import (
	"github.com/influxdata/influxql"
	"tsdbd/query/result"
)

// selectStatement runs a SELECT. Its sources are normalized.
func (s *session) selectStatement(st *influxql.SelectStatement) error {
	return runSelect(s.ctx, st, s.opt.Storage, s.selectOptions(), s.out.send)
}

// selectOptions returns the options of a SELECT of this request.
func (s *session) selectOptions() SelectOptions {
	l := s.queries.Limits()
	opt := SelectOptions{
		Database: s.database, RetentionPolicy: s.req.RetentionPolicy, ChunkSize: s.req.ChunkSize, Now: s.opt.Now(),
		MaxSelectPoint: l.MaxSelectPoint, MaxSelectSeries: l.MaxSelectSeries, MaxSelectBuckets: l.MaxSelectBuckets,
		MemoryBytes: l.MemoryBytes, Account: s.req.Account, Into: s.opt.Into, Workers: s.workers, Turn: s.req.Turn,
	}
	opt.DefaultRP = func(db string) (string, error) {
		database, err := s.databaseOf(db)
		if err != nil {
			return "", err
		}
		return database.DefaultRetentionPolicy, nil
	}
	opt.Warn = func(text string) {
		if s.out == nil {
			return // a continuous query of the server's own
		}
		s.out.messages = append(s.out.messages, result.Message{Level: "warning", Text: text})
	}
	return opt
}
