package show

import (
	"tsdbd/model"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// exploreRows is how many rows SHOW CARDINALITY has without LIMIT.
const exploreRows = 100

// ShowCardinality counts the series of a database, its measurements, or the values
// of a tag, from the index.
func (s *Statement) ShowCardinality(st *syntax.ShowCardinality) ([]*result.Series, error) {
	if st.Database == "" {
		return nil, syntax.ErrDatabaseNameRequired
	}
	limit := st.Limit
	if limit == 0 {
		limit = exploreRows
	}
	found, err := s.Explore(Exploration{
		Database: st.Database, Measurement: st.Measurement, Key: st.Key,
		Top: limit, Range: model.AllTime, Keys: st.Measurement != "", Values: st.Key != "",
	})
	if err != nil {
		return nil, err
	}
	name := st.Measurement
	if name == "" {
		name = "cardinality"
	}
	var t *result.Series
	switch {
	case st.Key != "":
		t = result.NewTable(name, "value", "series")
		for _, v := range found.Values {
			t.AddRow(v.Value, v.Series)
		}
	case st.Measurement != "":
		t = result.NewTable(name, "tagKey", "values", "series")
		for _, k := range found.Keys[:min(limit, len(found.Keys))] {
			t.AddRow(k.Key, k.Values, k.Series)
		}
	default:
		t = result.NewTable(name, "measurement", "series")
		for _, m := range found.Measurements[:min(limit, len(found.Measurements))] {
			t.AddRow(m.Name, m.Series)
		}
	}
	if t.Rows == 0 {
		return nil, nil
	}
	return []*result.Series{t}, nil
}
