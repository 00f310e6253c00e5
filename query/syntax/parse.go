package syntax

import (
	"bufio"
	"errors"
	"strings"
	"sync"

	"github.com/influxdata/influxql"

	"tsdbd/query/expr"
)

// extensions is every statement that InfluxDB's grammar does not have: the words it begins
// with, in upper case, and the parser of what follows them, up to the end of the statement.
var extensions = []struct {
	words []string
	parse func(p *influxql.Parser) (influxql.Statement, error)
}{
	{[]string{"ALTER", "MEASUREMENT"}, parseAlterMeasurement},
	{[]string{"ALTER", "SHARD"}, parseAcceptLoss},
	{[]string{"EXECUTE", "CONTINUOUS", "QUERY"}, parseExecuteContinuous},
	{[]string{"CREATE", "DOWNSAMPLE"}, parseCreateDownsample},
	{[]string{"DROP", "DOWNSAMPLE"}, parseDropDownsample},
	{[]string{"ALTER", "DOWNSAMPLE"}, parseAlterDownsample},
	{[]string{"SHOW", "DOWNSAMPLES"}, parseShowDownsamples},
	{[]string{"SHOW", "CARDINALITY"}, parseShowCardinality},
	{[]string{"SHOW", "SERVERS"}, parseShowServers},
	{[]string{"UPDATE"}, parseUpdate},
}

// extended makes the type that it is embedded in an influxql.Statement, which
// other packages cannot implement by themselves. Such a type has a String method.
type extended struct{ influxql.Statement }

// RequiredPrivileges is part of influxql.Statement; rights are checked by Needs.
func (extended) RequiredPrivileges() (influxql.ExecutionPrivileges, error) {
	return nil, errors.New("query.Needs returns the rights")
}

// conditional is a statement of our own with a WHERE, which may be nil.
type conditional interface{ condition() influxql.Expr }

// Parse reads InfluxQL, with params for its bound parameters. A text that InfluxDB's
// grammar accepts means the same here, except that a duration which overflows is an error.
// Parse looks for statements and clauses of our own (docs/influxql.md) only in a text that
// the grammar refuses. If there are none, the error is that of the grammar. Names and strings in quotes keep all their bytes, also
// those that are not UTF-8, which InfluxDB replaces.
func Parse(text string, params map[string]any) (*influxql.Query, error) {
	if _, err := CheckRegexes(text, params); err != nil {
		return nil, err
	}
	if err := checkDurations(text); err != nil {
		return nil, err
	}
	text, params = bindBytes(text, params)
	q, err := parseInfluxQL(text, params)
	if err == nil {
		return q, nil
	}
	tokens := tokenize(text)
	out := &influxql.Query{}
	plain := uncomment(text, tokens)
	known := plain != text // a comment may stand where the grammar takes it for something else
	list := unusedName(tokens)
	for len(tokens) > 0 {
		n := 0
		for n < len(tokens) && tokens[n].tok != influxql.SEMICOLON {
			n++
		}
		if n > 0 {
			stmts, extends, err := parsePart(plain, tokens[:n], list, params)
			known = known || extends
			if err != nil && !extends {
				break
			}
			if err != nil {
				return nil, err
			}
			out.Statements = append(out.Statements, stmts...)
		}
		tokens = tokens[min(n+1, len(tokens)):]
	}
	if !known || len(tokens) > 0 {
		return nil, err
	}
	return out, nil
}

// parseBuffers are of the size that influxql.NewParser would make.
var parseBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4096) }}

func parseInfluxQL(text string, params map[string]any) (*influxql.Query, error) {
	// The parser takes a buffer that is large enough as its own.
	b := parseBuffers.Get().(*bufio.Reader)
	defer parseBuffers.Put(b)
	b.Reset(strings.NewReader(text))
	p := influxql.NewParser(b)
	p.SetParams(params)
	return p.ParseQuery()
}

// parsePart reads the statement of some tokens of a text; extends tells whether
// it is, or holds, something of our own. It looks at that part of the text alone:
// only for an error is the statement put where it was.
func parsePart(text string, tokens []token, list string, params map[string]any) (stmts influxql.Statements, extends bool, err error) {
	begin, end := tokens[0].start, tokens[len(tokens)-1].end
	for _, e := range extensions {
		if !beginsWith(tokens, e.words) {
			continue
		}
		read := tokens[len(e.words)-1].end
		rest := text[read:end]
		if after := tokens[len(e.words):]; len(after) > 0 {
			rest = text[read:after[0].start] + rewriteClauses(text, after, list).text
		}
		parse := func(before string) (influxql.Statement, error) {
			p := influxql.NewParser(strings.NewReader(before + rest))
			p.SetParams(params)
			stmt, err := e.parse(p)
			if err != nil {
				return nil, err
			}
			if tok, pos, lit := p.ScanIgnoreWhitespace(); tok != influxql.EOF {
				return nil, unexpected(tok, pos, lit, "end of statement")
			}
			if c, ok := stmt.(conditional); ok && c.condition() != nil {
				return stmt, expr.MakeSets(c.condition(), list)
			}
			return stmt, nil
		}
		stmt, err := parse("")
		if err != nil {
			_, err = parse(blank(text[:read]))
			return nil, true, err
		}
		return influxql.Statements{stmt}, true, nil
	}
	q, err := parseInfluxQL(text[begin:end], params)
	if err == nil {
		return q.Statements, false, nil
	}
	if c, ok := findCold(tokens); ok {
		stmts, err := c.parse(text, tokens, params)
		return stmts, true, err
	}
	r := rewriteClauses(text, tokens, list)
	if !r.ours {
		return nil, false, err
	}
	if q, err = parseInfluxQL(r.text, params); err != nil {
		_, err = parseInfluxQL(blank(text[:begin])+r.text, params)
		return nil, true, err
	}
	return q.Statements, true, r.apply(q.Statements, params)
}

// uncomment replaces all that is between tokens by spaces.
func uncomment(text string, tokens []token) string {
	b := []byte(text)
	at := 0
	for i := 0; i <= len(tokens); i++ {
		end := len(b)
		if i < len(tokens) {
			end = tokens[i].start
		}
		for ; at < end; at++ {
			if b[at] != '\n' && b[at] != '\r' && b[at] != '\t' {
				b[at] = ' '
			}
		}
		if i < len(tokens) {
			at = tokens[i].end
		}
	}
	return string(b)
}

// blank replaces a text by spaces, so that what follows keeps its offset.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return r
		}
		return ' '
	}, text)
}

func beginsWith(tokens []token, words []string) bool {
	if len(tokens) < len(words) {
		return false
	}
	for i, word := range words {
		if !tokens[i].is(word) {
			return false
		}
	}
	return true
}

// unexpected is the error of a parser that found another token than it takes.
func unexpected(tok influxql.Token, pos influxql.Pos, lit string, expected ...string) error {
	found := lit
	if found == "" {
		found = tok.String()
	}
	return &influxql.ParseError{Found: found, Expected: expected, Pos: pos}
}
