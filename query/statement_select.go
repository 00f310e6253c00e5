package query

import "github.com/influxdata/influxql"

// selectStatement runs a SELECT. Its sources are normalized.
func (s *session) selectStatement(st *influxql.SelectStatement) error {
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
	return runSelect(s.ctx, st, s.opt.Storage, opt, s.out.send)
}
