package query

import (
	"errors"

	"github.com/influxdata/influxql"
)

// selectStatement runs a SELECT.
func (s *session) selectStatement(st *influxql.SelectStatement) error {
	return errors.New("statement not supported yet: SELECT")
}
