package query

import (
	"strconv"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/query/result"
)

// exploreRows is how many rows SHOW CARDINALITY has without LIMIT.
const exploreRows = 100

// showCardinality is SHOW CARDINALITY: which measurements, tags and values the
// series of a database are made of, the largest first.
type showCardinality struct {
	extended
	database, measurement, key string
	limit                      int // 0: not given
}

// parseShowCardinality reads [ON database] [FROM measurement] [WITH KEY = key]
// [LIMIT n].
func parseShowCardinality(p *influxql.Parser) (extension, error) {
	st := &showCardinality{}
	var err error
	next := func(want influxql.Token) bool {
		if tok, _, _ := p.ScanIgnoreWhitespace(); tok == want {
			return true
		}
		p.Unscan()
		return false
	}
	if next(influxql.ON) {
		if st.database, err = p.ParseIdent(); err != nil {
			return nil, err
		}
	}
	if next(influxql.FROM) {
		if st.measurement, err = p.ParseIdent(); err != nil {
			return nil, err
		}
	}
	if next(influxql.WITH) {
		for _, want := range []influxql.Token{influxql.KEY, influxql.EQ} {
			if tok, pos, lit := p.ScanIgnoreWhitespace(); tok != want {
				return nil, unexpected(tok, pos, lit, want.String())
			}
		}
		if st.key, err = p.ParseIdent(); err != nil {
			return nil, err
		}
	}
	st.limit, err = p.ParseOptionalTokenAndInt(influxql.LIMIT)
	return st, err
}

// String returns the statement's text.
func (st *showCardinality) String() string {
	text := "SHOW CARDINALITY"
	if st.database != "" {
		text += " ON " + influxql.QuoteIdent(st.database)
	}
	if st.measurement != "" {
		text += " FROM " + influxql.QuoteIdent(st.measurement)
	}
	if st.key != "" {
		text += " WITH KEY = " + influxql.QuoteIdent(st.key)
	}
	if st.limit > 0 {
		text += " LIMIT " + strconv.Itoa(st.limit)
	}
	return text
}

func (st *showCardinality) needs(database string) []Need {
	if st.database != "" {
		database = st.database
	}
	return []Need{{Privilege: meta.ReadPrivilege, Database: database}}
}

func (st *showCardinality) changes() bool { return false }

func (st *showCardinality) run(s *session) error {
	database := st.database
	if database == "" {
		database = s.database
	}
	if database == "" {
		return ErrDatabaseNameRequired
	}
	limit := st.limit
	if limit == 0 {
		limit = exploreRows
	}
	found, err := s.Explore(s.ctx, Exploration{
		Database: database, Measurement: st.measurement, Key: st.key,
		Top: limit, Range: model.AllTime, Keys: st.measurement != "", Values: st.key != "",
	})
	if err != nil {
		return err
	}
	name := st.measurement
	if name == "" {
		name = "cardinality"
	}
	var t *result.Series
	switch {
	case st.key != "":
		t = result.NewTable(name, []model.FieldType{model.String, model.Integer}, "value", "series")
		for _, v := range found.Values {
			t.AddRow(v.Value, v.Series)
		}
	case st.measurement != "":
		t = result.NewTable(name, []model.FieldType{model.String, model.Integer, model.Integer}, "tagKey", "values", "series")
		for _, k := range found.Keys[:min(limit, len(found.Keys))] {
			t.AddRow(k.Key, k.Values, k.Series)
		}
	default:
		t = result.NewTable(name, []model.FieldType{model.String, model.Integer}, "measurement", "series")
		for _, m := range found.Measurements[:min(limit, len(found.Measurements))] {
			t.AddRow(m.Name, m.Series)
		}
	}
	if t.Rows == 0 {
		return nil
	}
	return s.out.whole([]*result.Series{t})
}
