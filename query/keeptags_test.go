package query

import (
	"errors"
	"testing"

	"tsdbd/query/syntax"
)

func TestKeepTags(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		q, err := syntax.Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = KeepTags(q)
		if got := q.String(); want == "" && !errors.Is(err, ErrLimitedTags) || want != "" && (err != nil || got != want) {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
	}
	f(`SELECT v FROM cpu`, `SELECT v FROM cpu GROUP BY *`)
	f(`SELECT * FROM cpu WHERE v > 1`, `SELECT * FROM cpu WHERE v > 1 GROUP BY *`)
	f(`SELECT v FROM cpu GROUP BY host`, `SELECT v FROM cpu GROUP BY host, *`)
	f(`SELECT abs(v) + 1 FROM cpu`, `SELECT abs(v) + 1 FROM cpu GROUP BY *`)
	f(`SELECT v FROM (SELECT v FROM cpu)`, `SELECT v FROM (SELECT v FROM cpu GROUP BY *) GROUP BY *`)
	f(`SELECT v FROM cpu LIMIT 1`, ``)
	f(`SELECT v FROM cpu OFFSET 1`, ``)
	f(`SELECT v FROM (SELECT v FROM cpu LIMIT 1)`, ``)
	for _, same := range []string{
		`SELECT v FROM cpu GROUP BY * LIMIT 1`, `SELECT mean(v) FROM cpu`, `SELECT max(v) FROM cpu GROUP BY host LIMIT 1`, `SELECT derivative(v, 1s) FROM cpu`,
		`SELECT v FROM (SELECT mean(v) AS v FROM cpu)`, `SHOW MEASUREMENTS`,
	} {
		f(same, same)
	}
}

// TestKeepTagsThroughSubqueries: rows that go through a subquery have their tags too.
func TestKeepTagsThroughSubqueries(t *testing.T) {
	e := newExecutor(sampleStore(t))
	for _, text := range []string{`SELECT v FROM cpu`, `SELECT v FROM (SELECT v FROM cpu)`} {
		q, err := syntax.Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := KeepTags(q); err != nil {
			t.Fatal(err)
		}
		got := runText(t, e, ExecuteOptions{Database: "db"}, q.String())
		want := runText(t, e, ExecuteOptions{Database: "db"}, `SELECT v FROM cpu GROUP BY *`)
		if len(got) != 1 || got[0] != want[0] {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
