package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

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
	if errors.Is(err, errFieldsInUpdate) {
		return errFieldsInUpdate // whichever shard was asked first
	}
	if err != nil {
		return err
	}
	if moved.Series > 0 {
		s.warnContinuous(db, &st.Change)
	}
	return s.out.together([]*result.Series{result.WrittenTable([]string{"series", "merged"}, int64(moved.Series), int64(moved.Merged))})
}

// checkConditions refuses to rename a tag or field that the condition of a downsample
// names. The condition would hold for other rows from then on, and the aggregates of those
// for which it held would go. Nor may a tag be renamed that rows are grouped by, or are without.
func (s *session) checkConditions(database string, c *model.Change) error {
	name := cmp.Or(c.RenameTag.From, c.RenameField.From)
	db := s.catalog().Database(database)
	if name == "" || db == nil {
		return nil
	}
	for i := range db.Downsamples {
		t := &db.Downsamples[i]
		for k := range t.Definitions {
			d := &t.Definitions[k]
			if slices.Contains(d.By, c.RenameTag.From) || slices.Contains(d.Without, c.RenameTag.From) {
				return fmt.Errorf("the downsample from %s into %s names the tag %s, which its rows are grouped by or are without: drop it, and create it again with the new name", t.From, t.Into, c.RenameTag.From)
			}
			if c.RenameField.From != "" && slices.Contains(d.Fields(), c.RenameField.From) {
				return fmt.Errorf("the downsample from %s into %s has functions for the field %s: drop it, and create it again with the new name", t.From, t.Into, c.RenameField.From)
			}
			if d.Where == "" {
				continue
			}
			q, err := syntax.Parse("SELECT * FROM m WHERE "+d.Where, nil)
			if err != nil {
				return err
			}
			found := false
			influxql.WalkFunc(q, func(n influxql.Node) {
				ref, ok := n.(*influxql.VarRef)
				found = found || ok && ref.Val == name
			})
			if found {
				return fmt.Errorf("the downsample from %s into %s has the condition %s: drop it, and create it again with the new name", t.From, t.Into, d.Where)
			}
		}
	}
	return nil
}

// warnContinuous names the continuous queries that use a name which a move has changed. They
// are stored as text, and the move does not change it.
func (s *session) warnContinuous(database string, c *model.Change) {
	old, now := c.Measurement, c.To
	for _, x := range []model.Rename{c.RenameTag, c.RenameField} {
		if x.From != "" {
			old, now = x.From, x.To
		}
	}
	if old == now {
		return
	}
	for _, db := range s.catalog().Databases {
		if s.req.MayRead != nil && !s.req.MayRead(db.Name) {
			continue
		}
		for _, stored := range db.ContinuousQueries {
			q, err := ParseContinuous(stored.Query)
			if err == nil && q.uses(cmp.Or(q.Database, db.Name), database, c) {
				s.warn(fmt.Sprintf("continuous query %q on %q uses the old name %q: drop it and create it again with %q", stored.Name, db.Name, old, now))
			}
		}
	}
}

// uses reports whether the query uses the name that a change of a database makes old.
// Sources without a database are those of own.
func (q *ContinuousQuery) uses(own, database string, c *model.Change) bool {
	measurement, key := false, false
	field := cmp.Or(c.RenameTag.From, c.RenameField.From)
	influxql.WalkFunc(q.stmt, func(n influxql.Node) {
		switch n := n.(type) {
		case *influxql.VarRef:
			key = key || n.Val == field
		case *influxql.Measurement:
			switch {
			case cmp.Or(n.Database, own) != database || n.IsTarget && field != "":
			case n.Regex == nil:
				measurement = measurement || n.Name == c.Measurement
			case field != "" || !n.Regex.Val.MatchString(c.To):
				measurement = measurement || n.Regex.Val.MatchString(c.Measurement)
			}
		}
	})
	return measurement && (key || field == "")
}
