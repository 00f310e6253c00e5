package query

import "github.com/influxdata/influxql"

// selectStatement runs a SELECT. Its sources are normalized.
func (s *session) selectStatement(st *influxql.SelectStatement) error {
	return runSelect(s.ctx, st, s.opt.Storage, s.selectOptions(), s.out.send)
}

// selectOptions returns the options of a SELECT of this request.
func (s *session) selectOptions() SelectOptions {
	opt := s.opt.Select
	opt.Database, opt.RetentionPolicy, opt.ChunkSize = s.database, s.req.RetentionPolicy, s.req.ChunkSize
	opt.Now = s.opt.Now()
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
		s.out.messages = append(s.out.messages, Message{Level: "warning", Text: text})
	}
	return opt
}
