package shell

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestContinues holds which lines ask for another one at the prompt.
func TestContinues(t *testing.T) {
	influxQL, promQL := Session{}, Session{Settings: Settings{Language: "promql"}}
	for text, want := range map[string]bool{
		"SHOW DATABASES": true, "SHOW DATABASES;": true, "SELECT a,": false, "SELECT mean(a": false, "SELECT mean(a) FROM b": true, "SELECT 'a": false,
		`SELECT "a (" FROM b`: true, "SELECT a,\n": true, `\d "`: true, "use demo": true, `SELECT a FROM b WHERE c = 'it\'s'`: true, "": true, "-- a comment": true,
		"SELECT a FROM b WHERE": false, "SELECT a": false, "SELECT a -- FROM;": false, "SELECT a FROM b WHERE c =~ /it's/": true,
		"NOSUCH STATEMENT": true, "DROP": false, "CREATE DATABASE": false,
	} {
		if influxQL.completeLine(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	for text, want := range map[string]bool{"up": true, "sum(": false, `up{a="`: false, "rate(x[5m": false, "sum(\nup)": true, `up{a="("}`: true, "range 1h": true} {
		if promQL.completeLine(text) != want {
			t.Errorf("PromQL %q: %v", text, !want)
		}
	}
}

// TestRun reads statements of an input: each "|" is a new line, and each text wanted is a
// request.
func TestRun(t *testing.T) {
	for input, want := range map[string][]string{
		"SHOW USERS|SHOW QUERIES":                                              {"SHOW USERS", "SHOW QUERIES"},
		"SELECT a|FROM b;|SHOW USERS;SHOW QUERIES":                             {"SELECT a|FROM b;", "SHOW USERS;SHOW QUERIES"},
		"DELETE FROM a|WHERE time < 1":                                         {"DELETE FROM a|WHERE time < 1"},
		"DELETE FROM a||  WHERE time < 1|SHOW USERS":                           {"DELETE FROM a||  WHERE time < 1", "SHOW USERS"},
		"|-- a comment|SHOW USERS|-- another|":                                 {"SHOW USERS|-- another"},
		"ALTER DOWNSAMPLE ON a FROM b INTO c ADD min|DROP max|DROP DATABASE e": {"ALTER DOWNSAMPLE ON a FROM b INTO c ADD min|DROP max", "DROP DATABASE e"},
		"DELETE FROM a|WHRE time < 1|SHOW USERS":                               {"DELETE FROM a|WHRE time < 1", "SHOW USERS"},
		"SELECT a FROM (|SELECT a FROM b|)|LIMIT 1":                            {"SELECT a FROM (|SELECT a FROM b|)|LIMIT 1"},
		"SHOW USERS|format csv|SHOW QUERIES":                                   {"SHOW USERS", "SHOW QUERIES"},
		"SHOW USERS|exit|SHOW QUERIES":                                         {"SHOW USERS"},
		"NO SUCH|SHOW USERS":                                                   {"NO SUCH"},
		"SELECT a FROM":                                                        {"SELECT a FROM"},
		"SELECT ';|' FROM b":                                                   {"SELECT ';|' FROM b"},
	} {
		answers := map[string]string{}
		for _, text := range want {
			if text != "NO SUCH" {
				answers[strings.ReplaceAll(text, "|", "\n")] = `{"results":[{"statement_id":0}]}`
			}
		}
		s, a, _ := start(t, answers)
		err := s.Run(context.Background(), strings.NewReader(strings.ReplaceAll(input, "|", "\n")))
		var asked []string
		for _, r := range a.asked {
			asked = append(asked, strings.ReplaceAll(r.Form.Get("q"), "\n", "|"))
		}
		if failed := want[0] == "NO SUCH"; !slices.Equal(asked, want) || (err != nil) != failed {
			t.Errorf("%q: %q, %v, want %q", input, asked, err, want)
		}
	}
}
