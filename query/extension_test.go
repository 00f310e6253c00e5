package query

import (
	"reflect"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/internal/golden"
)

// goldenQueries returns every text of a query that was recorded.
func goldenQueries(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, th := range golden.Themes(t, func(string) bool { return true }) {
		for _, s := range th.Setup {
			if s.Statement != "" {
				all = append(all, s.Statement)
			}
		}
		for _, c := range th.Cases {
			if c.Q != "" {
				all = append(all, c.Q)
			}
		}
	}
	if len(all) < 2000 {
		t.Fatalf("only %d queries", len(all))
	}
	return all
}

// TestParseKeepsGrammar: what the grammar of InfluxDB accepts means what it
// says, and what both refuse is refused in its words.
func TestParseKeepsGrammar(t *testing.T) {
	refused := 0
	for _, text := range goldenQueries(t) {
		want, wantErr := influxql.ParseQuery(text)
		got, err := Parse(text, nil)
		switch {
		case wantErr != nil:
			refused++
			if err == nil || err.Error() != wantErr.Error() {
				t.Errorf("%s\n got %v\nwant %v", text, err, wantErr)
			}
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case !reflect.DeepEqual(got, want):
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if refused < 50 {
		t.Errorf("only %d texts that are refused", refused)
	}
}

// TestTokens: tokens are those of influxql.Scanner, and lie where they are.
func TestTokens(t *testing.T) {
	for _, text := range append(goldenQueries(t), "SELECT a/b FROM /x\\/y/ WHERE t =~ /'/ -- it's\nAND x = 'it''s' /* '*/ + 1.5e 3h2m .5 µ", "x IN\r\n('a')", `"a\"b" $p $"q r" 1mo 3µs`) {
		tokens, ok := tokenize(text)
		if !ok {
			continue
		}
		s := influxql.NewScanner(strings.NewReader(text))
		at := 0
		for i, tok := range tokens {
			if text[tok.start:tok.end] != tok.text || tok.start < at {
				t.Fatalf("%q: token %q is not at %d", text, tok.text, tok.start)
			}
			at = tok.end
			if tok.tok == influxql.REGEX {
				break // the scanner must be told
			}
			got, _, lit := s.Scan()
			for got == influxql.WS || got == influxql.COMMENT {
				got, _, lit = s.Scan()
			}
			if got != tok.tok {
				t.Fatalf("%q: token %d %q is %s, the scanner says %s %q", text, i, tok.text, tok.tok, got, lit)
			}
		}
	}
}

func TestParseExtensions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"execute Continuous query q ON db", `EXECUTE CONTINUOUS QUERY q ON db`},
		{`SHOW DATABASES; EXECUTE CONTINUOUS QUERY "a b" ON "c d" FROM now() - 1d TO '2020-01-01'; SHOW USERS`, `SHOW DATABASES; EXECUTE CONTINUOUS QUERY "a b" ON "c d" FROM now() - 1d TO '2020-01-01'; SHOW USERS`},
		{"EXECUTE CONTINUOUS QUERY q", "error: found EOF, expected ON at line 1, char 28"},
		{"EXECUTE CONTINUOUS QUERY q ON db FROM 1", "error: found EOF, expected TO at line 1, char 40"},
		{"EXECUTE CONTINUOUS QUERY q ON db LIMIT 1", "error: found LIMIT, expected end of statement at line 1, char 34"},
		{"EXECUTE QUERY", "error: " + grammarError("EXECUTE QUERY")},
	} {
		if got := parsedText(c.text); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func grammarError(text string) string {
	_, err := influxql.ParseQuery(text)
	return err.Error()
}

// parsedText is how a text reads when it was parsed.
func parsedText(text string) string {
	q, err := Parse(text, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return strings.ReplaceAll(q.String(), ";\n", "; ")
}
