package query

import (
	"strconv"

	"github.com/influxdata/influxql"
)

// executeContinuous is EXECUTE CONTINUOUS QUERY: a run by hand over the windows
// of a range.
type executeContinuous struct {
	extended
	name, database string
	from, to       influxql.Expr // nil: the window that has ended last
}

// parseExecuteContinuous reads name ON database [FROM time TO time].
func parseExecuteContinuous(p *influxql.Parser) (influxql.Statement, error) {
	st := &executeContinuous{}
	var err error
	if st.name, err = p.ParseIdent(); err != nil {
		return nil, err
	}
	if tok, pos, lit := p.ScanIgnoreWhitespace(); tok != influxql.ON {
		return nil, unexpected(tok, pos, lit, "ON")
	}
	if st.database, err = p.ParseIdent(); err != nil {
		return nil, err
	}
	if tok, _, _ := p.ScanIgnoreWhitespace(); tok != influxql.FROM {
		p.Unscan()
		return st, nil
	}
	if st.from, err = p.ParseExpr(); err != nil {
		return nil, err
	}
	if tok, pos, lit := p.ScanIgnoreWhitespace(); tok != influxql.TO {
		return nil, unexpected(tok, pos, lit, "TO")
	}
	st.to, err = p.ParseExpr()
	return st, err
}

// String returns the statement's text.
func (st *executeContinuous) String() string {
	text := "EXECUTE CONTINUOUS QUERY " + influxql.QuoteIdent(st.name) + " ON " + influxql.QuoteIdent(st.database)
	if st.from != nil {
		text += " FROM " + st.from.String() + " TO " + st.to.String()
	}
	return text
}

// showCardinality is SHOW CARDINALITY: which measurements, tags and values the
// series of a database are made of, the largest first.
type showCardinality struct {
	extended
	database, measurement, key string
	limit                      int // 0: not given
}

// parseShowCardinality reads [ON database] [FROM measurement] [WITH KEY = key]
// [LIMIT n].
func parseShowCardinality(p *influxql.Parser) (influxql.Statement, error) {
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

