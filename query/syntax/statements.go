package syntax

import (
	"strconv"

	"github.com/influxdata/influxql"
)

// ExecuteContinuous is EXECUTE CONTINUOUS QUERY: a run by hand over the windows
// of a range.
type ExecuteContinuous struct {
	extended
	Name, Database string
	From, To       influxql.Expr // nil: the window that has ended last
}

// parseExecuteContinuous reads name ON database [FROM time TO time].
func parseExecuteContinuous(p *influxql.Parser) (influxql.Statement, error) {
	st := &ExecuteContinuous{}
	var err error
	if st.Name, err = p.ParseIdent(); err != nil {
		return nil, err
	}
	if err = expect(p, influxql.ON); err != nil {
		return nil, err
	}
	if st.Database, err = p.ParseIdent(); err != nil {
		return nil, err
	}
	if !next(p, influxql.FROM) {
		return st, nil
	}
	if st.From, err = p.ParseExpr(); err != nil {
		return nil, err
	}
	if err = expect(p, influxql.TO); err != nil {
		return nil, err
	}
	st.To, err = p.ParseExpr()
	return st, err
}

// String returns the statement's text.
func (st *ExecuteContinuous) String() string {
	text := "EXECUTE CONTINUOUS QUERY " + influxql.QuoteIdent(st.Name) + " ON " + influxql.QuoteIdent(st.Database)
	if st.From != nil {
		text += " FROM " + st.From.String() + " TO " + st.To.String()
	}
	return text
}

// ShowCardinality is SHOW CARDINALITY: the measurements, tag keys or tag values of a
// database with the numbers of their series, the largest first.
type ShowCardinality struct {
	extended
	Database, Measurement, Key string
	Limit                      int // 0: not given
}

// parseShowCardinality reads [ON database] [FROM measurement] [WITH KEY = key]
// [LIMIT n].
func parseShowCardinality(p *influxql.Parser) (influxql.Statement, error) {
	st := &ShowCardinality{}
	var err error
	if next(p, influxql.ON) {
		if st.Database, err = p.ParseIdent(); err != nil {
			return nil, err
		}
	}
	if next(p, influxql.FROM) {
		if st.Measurement, err = p.ParseIdent(); err != nil {
			return nil, err
		}
	}
	if next(p, influxql.WITH) {
		for _, want := range []influxql.Token{influxql.KEY, influxql.EQ} {
			if err = expect(p, want); err != nil {
				return nil, err
			}
		}
		if st.Key, err = p.ParseIdent(); err != nil {
			return nil, err
		}
	}
	st.Limit, err = p.ParseOptionalTokenAndInt(influxql.LIMIT)
	return st, err
}

// String returns the statement's text.
func (st *ShowCardinality) String() string {
	text := "SHOW CARDINALITY"
	if st.Database != "" {
		text += " ON " + influxql.QuoteIdent(st.Database)
	}
	if st.Measurement != "" {
		text += " FROM " + influxql.QuoteIdent(st.Measurement)
	}
	if st.Key != "" {
		text += " WITH KEY = " + influxql.QuoteIdent(st.Key)
	}
	if st.Limit > 0 {
		text += " LIMIT " + strconv.Itoa(st.Limit)
	}
	return text
}

// ShowServers is SHOW SERVERS: the nodes of a cluster.
type ShowServers struct{ extended }

func parseShowServers(*influxql.Parser) (influxql.Statement, error) { return &ShowServers{}, nil }

// String returns the statement's text.
func (*ShowServers) String() string { return "SHOW SERVERS" }

// next takes the next token if it is want.
func next(p *influxql.Parser, want influxql.Token) bool {
	if tok, _, _ := p.ScanIgnoreWhitespace(); tok == want {
		return true
	}
	p.Unscan()
	return false
}

// expect takes the next token, which must be want.
func expect(p *influxql.Parser, want influxql.Token) error {
	if tok, pos, lit := p.ScanIgnoreWhitespace(); tok != want {
		return unexpected(tok, pos, lit, want.String())
	}
	return nil
}
