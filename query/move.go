package query

import (
	"cmp"
	"errors"
	"fmt"

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
	if err := s.checkConditions(db, &st.Change); err != nil {
		return err
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

// checkConditions refuses to rename a tag or field that the condition of a downsample
// names. The condition would hold for other rows from then on, and the aggregates of those
// for which it held would go.
func (s *session) checkConditions(database string, c *model.Change) error {
	name := cmp.Or(c.RenameTag.From, c.RenameField.From)
	db := s.catalog().Database(database)
	if name == "" || db == nil {
		return nil
	}
	for i := range db.Downsamples {
		t := &db.Downsamples[i]
		if t.Where == "" {
			continue
		}
		q, err := syntax.Parse("SELECT * FROM m WHERE "+t.Where, nil)
		if err != nil {
			return err
		}
		found := false
		influxql.WalkFunc(q, func(n influxql.Node) {
			ref, ok := n.(*influxql.VarRef)
			found = found || ok && ref.Val == name
		})
		if found {
			return fmt.Errorf("the downsample from %s into %s has the condition %s: drop it, and create it again with the new name", t.From, t.Into, t.Where)
		}
	}
	return nil
}
