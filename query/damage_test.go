package query

import (
	"context"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// TestDamagedTagKeys: an answer that needs tag keys which cannot be read is an
// error, never a shorter answer.
func TestDamagedTagKeys(t *testing.T) {
	store := sampleStore(t)
	store.Damage = binio.Corruptf("0001.tsi", 7, "checksum mismatch")
	want := "error: " + binio.Corruptf("0001.tsi", 7, "checksum mismatch").Error()
	e := newExecutor(store)
	for _, q := range []string{
		`SHOW TAG KEYS`,
		`SHOW TAG VALUES WITH KEY = host`,
		`SHOW TAG KEY CARDINALITY`,
		`SHOW TAG VALUES CARDINALITY WITH KEY = host`,
		`SHOW SERIES EXACT CARDINALITY GROUP BY *`,
		`SHOW SERIES EXACT CARDINALITY GROUP BY /h/`,
		`SHOW MEASUREMENTS WHERE host = 'a'`,
		`SELECT * FROM cpu`,
		`SELECT v, host FROM cpu`,
		`SELECT v FROM cpu GROUP BY *`,
	} {
		if got := runText(t, e, ExecuteOptions{Database: "db"}, q); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
	if got := runText(t, e, ExecuteOptions{Database: "db"}, `SHOW FIELD KEYS FROM up`); got[0] != `up(fieldKey fieldType): v float` {
		t.Errorf("fields: %q", got)
	}
}

// TestLosses: statements about times that have lost points fail, unless the request asks
// for what is left; the results then say so. Nothing is computed from it for good.
func TestLosses(t *testing.T) {
	store := sampleStore(t)
	store.Lost = []scan.Loss{{Shard: 2, Range: model.TimeRange{Min: 1e18, Max: 2e18}, Path: "db-1/shard-2/quarantine/1.tsm", ID: "1.tsm"}}
	const lost = "points are missing in shard 2, 2001-09-09T01:46:40Z to 2033-05-18T03:33:20Z: damaged file set aside as db-1/shard-2/quarantine/1.tsm"
	e := New(Options{Storage: store, Admin: store, Into: func(context.Context, *result.IntoBatch) error {
		t.Error("rows were stored")
		return nil
	}})
	mustOK(t, store.Apply(t.Context(), meta.CreateContinuousQuery{Database: "db", Name: "c", Query: "CREATE CONTINUOUS QUERY c ON db BEGIN SELECT count(v) INTO agg FROM cpu GROUP BY time(1h) END"}))
	read := []string{
		`SELECT count(v) FROM cpu`,
		`SELECT n FROM (SELECT count(v) AS n FROM cpu)`,
		`SELECT count(v) FROM cpu WHERE time > 1500000000s`,
		`SELECT v FROM nothing`,
		`SHOW MEASUREMENTS`,
		`SHOW SERIES`,
		`SHOW TAG VALUES WITH KEY = host`,
		`SHOW FIELD KEYS`,
		`SHOW SERIES EXACT CARDINALITY`,
		`EXPLAIN SELECT v FROM cpu`,
	}
	for _, q := range append(read, `SELECT count(v) INTO agg FROM cpu`, `EXECUTE CONTINUOUS QUERY c ON db FROM '2001-09-09' TO '2001-09-10'`) {
		got := runText(t, e, ExecuteOptions{Database: "db"}, q)
		if len(got) != 1 || !strings.HasPrefix(got[0], "error: ") || !strings.Contains(got[0], lost+". For an answer from what is left, add partial=true") {
			t.Errorf("%s: %q", q, got)
		}
	}
	for _, q := range read {
		stmts, err := syntax.Parse(q, nil)
		mustOK(t, err)
		n := 0
		mustOK(t, e.Execute(t.Context(), stmts, ExecuteOptions{Database: "db", Partial: true}, func(r *result.Result) error {
			if n++; n == 1 && (r.Err != nil || !slices.Contains(r.Messages, result.Message{Level: "warning", Text: lost})) {
				t.Errorf("%s, partial: %+v", q, r)
			}
			return nil
		}))
	}
	for q, want := range map[string]string{
		`SELECT count(v) INTO agg FROM cpu`:                                  "SELECT INTO takes no partial=true",
		`EXECUTE CONTINUOUS QUERY c ON db FROM '2001-09-09' TO '2001-09-10'`: lost,
	} {
		if got := runText(t, e, ExecuteOptions{Database: "db", Partial: true}, q); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s, partial: %q", q, got)
		}
	}
	for _, q := range []string{`SELECT count(v) FROM cpu WHERE time < 900000000s`, `SHOW DATABASES`, `SHOW SHARDS`} {
		if got := runText(t, e, ExecuteOptions{Database: "db"}, q); strings.Contains(strings.Join(got, ""), "missing") {
			t.Errorf("%s: %q", q, got)
		}
	}
}

// TestAcceptLoss: a loss that an administrator accepts, by a statement that names all of
// its times, is a note from then on.
func TestAcceptLoss(t *testing.T) {
	store := sampleStore(t)
	var at meta.ShardLocation
	for id, one := range store.Catalog().Shards() {
		if id == 2 {
			at = one
		}
	}
	times := at.Group.TimeRange()
	store.Lost = []scan.Loss{
		{Shard: 2, Range: times, Path: "db-1/shard-2/quarantine/1.tsm", ID: "1.tsm"},
		{Shard: 2, Range: times, Path: "db-1/shard-2/quarantine/MANIFEST", ID: "MANIFEST", Deletes: true},
		{Range: model.AllTime, Path: "wal/quarantine/6.wal.damaged-5", ID: "6.wal.damaged-5"},
	}
	e := newExecutor(store)
	ask := func(q string) string {
		t.Helper()
		return strings.Join(runText(t, e, ExecuteOptions{Database: "db"}, q), "; ")
	}
	statement := func(text string) string {
		t.Helper()
		_, statement, ok := strings.Cut(text, "to accept the loss for good: ")
		if !ok {
			t.Fatalf("no statement: %s", text)
		}
		return statement
	}
	const all = "SELECT count(v) FROM cpu"
	of := statement(ask(all))
	for q, want := range map[string]string{
		`ALTER SHARD 2 ACCEPT LOSS FROM '2001-09-05T00:00:00Z' TO '2001-09-06T00:00:00Z'`: "the loss is of more times than the statement names, which would be: " + of,
		strings.Replace(of, "SHARD 2", "SHARD 1", 1):                                      "shard 1 has lost nothing on this node",
		strings.Replace(of, "SHARD 2", "SHARD 99", 1):                                     meta.ErrShardNotFound.Error(),
		`ALTER SHARD 2 ACCEPT LOSS FROM now() TO '2001-09-06'`:                            "",
	} {
		if want == "" {
			if _, err := syntax.Parse(q, nil); err == nil {
				t.Errorf("%s is parsed", q)
			}
			continue
		}
		if got := ask(q); got != "error: "+want {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
	if got := ask(of); got != "" {
		t.Errorf("%s: %q", of, got)
	}
	ofLog := statement(ask(all)) // another loss is left
	if got := ask(ofLog); !strings.HasPrefix(ofLog, "ALTER SHARD 0 ") || got != "" {
		t.Errorf("%s: %q", ofLog, got)
	}
	stmts, err := syntax.Parse(all, nil)
	mustOK(t, err)
	mustOK(t, e.Execute(t.Context(), stmts, ExecuteOptions{Database: "db"}, func(r *result.Result) error {
		if r.Err != nil || len(r.Messages) != 3 || !strings.HasSuffix(r.Messages[0].Text, "; the loss is accepted") {
			t.Errorf("once accepted: %+v", r)
		}
		return nil
	}))
	if got := ask("SHOW SHARDS"); !strings.Contains(got, "accepted losses") || !strings.Contains(got, "6.wal.damaged-5") {
		t.Errorf("SHOW SHARDS: %q", got)
	}
	store.Lost = append(store.Lost, scan.Loss{Shard: 2, Range: times, Path: "db-1/shard-2/quarantine/2.tsm", ID: "2.tsm"})
	if got := ask(all); !strings.HasPrefix(got, "error: ") {
		t.Errorf("with another loss: %q", got)
	}
}
