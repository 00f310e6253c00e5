package query

import (
	"errors"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

var errFieldsInUpdate = errors.New("fields not supported in WHERE clause of UPDATE")

// move gives series, or a field, other names in all policies, and says how many series
// that were, and how many of them became part of another one.
func (s *session) move(st *syntax.Move) error {
	db, err := s.requestDatabase()
	if err != nil {
		return err
	}
	if influxql.HasTimeExpr(st.Condition) {
		return errors.New("UPDATE doesn't support time in WHERE clause")
	}
	req := scan.MoveRequest{Database: db, Change: st.Change}
	if where := influxql.Reduce(st.Condition, nil); where != nil {
		req.Where = func(_ string, fields []column.Field) (*model.TagExpr, error) {
			return tagPredicate(where, fields, errFieldsInUpdate)
		}
	}
	moved, err := s.opt.Admin.Move(s.ctx, req)
	if err != nil {
		return err
	}
	t := result.NewTable("result", []model.FieldType{model.Integer, model.Integer, model.Integer}, "time", "series", "merged")
	t.Time = 0
	t.AddRow(int64(0), int64(moved.Series), int64(moved.Merged))
	return s.out.together([]*result.Series{t})
}
