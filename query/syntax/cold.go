package syntax

import (
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
)

// CreateDatabase is CREATE DATABASE ... WITH with a clause COLD.
type CreateDatabase struct {
	*influxql.CreateDatabaseStatement
	Cold time.Duration // as meta.RetentionPolicy.ColdAfter
}

// CreateRetentionPolicy is CREATE RETENTION POLICY with a clause COLD.
type CreateRetentionPolicy struct {
	*influxql.CreateRetentionPolicyStatement
	Cold time.Duration // as meta.RetentionPolicy.ColdAfter
}

// AlterRetentionPolicy is ALTER RETENTION POLICY with a clause COLD.
type AlterRetentionPolicy struct {
	*influxql.AlterRetentionPolicyStatement
	Cold time.Duration // as meta.RetentionPolicy.ColdAfter
}

// String returns the statement's text.
func (st *CreateDatabase) String() string {
	return st.CreateDatabaseStatement.String() + ColdText(st.Cold)
}

// String returns the statement's text.
func (st *CreateRetentionPolicy) String() string {
	return st.CreateRetentionPolicyStatement.String() + ColdText(st.Cold)
}

// String returns the statement's text.
func (st *AlterRetentionPolicy) String() string {
	return st.AlterRetentionPolicyStatement.String() + ColdText(st.Cold)
}

// ColdText returns the clause for an age, with a space before it.
func ColdText(age time.Duration) string {
	if age < 0 {
		return " COLD INF"
	}
	return " COLD " + influxql.FormatDuration(age)
}

// coldOptions are the statements that may have COLD: the words they begin with, the number of
// tokens before their options, and an option that changes nothing. It takes the place of COLD
// where the grammar wants one at least.
var coldOptions = []struct {
	words   []string
	options int
	neutral string
}{
	{[]string{"CREATE", "RETENTION", "POLICY"}, 6, ""}, // name ON database
	{[]string{"ALTER", "RETENTION", "POLICY"}, 6, " DEFAULT"},
	{[]string{"CREATE", "DATABASE"}, 4, " SHARD DURATION 0s"}, // name WITH
}

// coldClause is a clause COLD that was found in a statement.
type coldClause struct {
	at      int    // its place in the tokens
	neutral string // an option in its place, if there is no other one
}

// findCold looks for COLD among the options of a statement. Elsewhere cold is a name.
func findCold(tokens []token) (c coldClause, ok bool) {
	for _, o := range coldOptions {
		if !beginsWith(tokens, o.words) {
			continue
		}
		for i := o.options; i < len(tokens); i++ {
			if !tokens[i].is("COLD") || !endsOption(tokens[i-1]) {
				continue
			}
			if i == o.options && i+2 >= len(tokens) {
				c.neutral = o.neutral
			}
			c.at = i
			return c, true
		}
	}
	return c, false
}

// endsOption reports whether a new option may follow a token.
func endsOption(t token) bool {
	switch t.tok {
	case influxql.INF, influxql.DEFAULT, influxql.WITH:
		return true
	}
	return t.operand()
}

// parse reads the statement of some tokens of a text. It looks at that part of the text alone:
// only for an error is the statement put where it was.
func (c coldClause) parse(text string, tokens []token, params map[string]any) (influxql.Statements, error) {
	stmts, err := c.parseBehind("", text, tokens, params)
	if err != nil {
		_, err = c.parseBehind(blank(text[:tokens[0].start]), text, tokens, params)
	}
	return stmts, err
}

// parseBehind reads the clause, and has the grammar read all but it, as if spaces were before it.
func (c coldClause) parseBehind(spaces, text string, tokens []token, params map[string]any) (influxql.Statements, error) {
	begin, from, end := tokens[0].start, tokens[c.at].start, tokens[len(tokens)-1].end
	parser := func(text string) *influxql.Parser {
		p := influxql.NewParser(strings.NewReader(spaces + text))
		p.SetParams(params)
		return p
	}
	age, err := parseCold(parser(blank(text[begin:tokens[c.at].end]) + text[tokens[c.at].end:end]))
	if err != nil {
		return nil, err
	}
	to := tokens[c.at+1].end
	q, err := parser(text[begin:from] + blank(text[from:to]) + c.neutral + text[to:end]).ParseQuery()
	if err != nil {
		return nil, err
	}
	switch st := q.Statements[0].(type) {
	case *influxql.CreateDatabaseStatement:
		q.Statements[0] = &CreateDatabase{st, age}
	case *influxql.CreateRetentionPolicyStatement:
		q.Statements[0] = &CreateRetentionPolicy{st, age}
	case *influxql.AlterRetentionPolicyStatement:
		if c.neutral != "" {
			st.Default = false
		}
		q.Statements[0] = &AlterRetentionPolicy{st, age}
	}
	return q.Statements, nil
}

// parseCold reads the age of COLD: a duration, or INF.
func parseCold(p *influxql.Parser) (time.Duration, error) {
	if tok, _, _ := p.ScanIgnoreWhitespace(); tok == influxql.INF {
		return meta.NeverCold, nil
	}
	p.Unscan()
	return p.ParseDuration()
}
