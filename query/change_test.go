package query

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tsdbd/query/syntax"
)

// TestChanges holds every kind of statement against what it does, by hand. It fails for
// a rule whose statement is not here.
func TestChanges(t *testing.T) {
	asked := map[reflect.Type]bool{}
	f := func(text, want string) {
		t.Helper()
		q, err := syntax.Parse(text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		asked[reflect.TypeOf(q.Statements[0])] = true
		var got []string
		for _, c := range Changes(q, "mine") {
			does := "adds"
			if c.Destroys {
				does = "destroys"
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s", does, c.Database)))
			if strings.Contains(c.Statement, "secret") {
				t.Errorf("%s: %s", text, c.Statement)
			}
		}
		if have := strings.Join(got, ", "); have != want || OnlyReads(q) != (want == "") {
			t.Errorf("%s: %q, want %q; only reads: %v", text, have, want, OnlyReads(q))
		}
	}
	for _, reads := range []string{
		"SELECT v FROM cpu", "SELECT v FROM (SELECT v FROM other..cpu)", "EXPLAIN SELECT v FROM cpu", "EXPLAIN ANALYZE SELECT v FROM cpu",
		"SHOW DATABASES", "SHOW MEASUREMENTS", "SHOW RETENTION POLICIES", "SHOW CONTINUOUS QUERIES", "SHOW QUERIES", "SHOW SERIES", "SHOW TAG KEYS",
		"SHOW FIELD KEYS", "SHOW TAG VALUES WITH KEY = host", "SHOW SERIES CARDINALITY", "SHOW MEASUREMENT CARDINALITY", "SHOW FIELD KEY CARDINALITY",
		"SHOW TAG KEY CARDINALITY", "SHOW TAG VALUES CARDINALITY WITH KEY = host", "SHOW CARDINALITY", "SHOW DOWNSAMPLES", "SHOW USERS",
		"SHOW GRANTS FOR u", "SHOW SHARDS", "SHOW SHARD GROUPS", "SHOW STATS", "SHOW DIAGNOSTICS", "SHOW SUBSCRIPTIONS", "SHOW SERVERS",
	} {
		f(reads, "")
	}
	f("SELECT v INTO t FROM other..cpu", "adds mine")
	f("SELECT v INTO x..t FROM cpu", "adds x")
	f("EXPLAIN SELECT v INTO x..t FROM cpu", "adds x")
	f("EXPLAIN ANALYZE SELECT v INTO t FROM cpu", "adds mine")
	f("CREATE DATABASE x", "adds x")
	f("CREATE RETENTION POLICY p ON x DURATION 1d REPLICATION 1", "adds x")
	f("CREATE USER u WITH PASSWORD 'secret'", "adds")
	f("SET PASSWORD FOR u = 'secret'", "adds")
	f("GRANT READ ON x TO u", "adds x")
	f("GRANT ALL TO u", "adds")
	f("CREATE CONTINUOUS QUERY q ON x BEGIN SELECT mean(v) INTO t FROM cpu GROUP BY time(1m) END", "adds x")
	f("EXECUTE CONTINUOUS QUERY q ON x", "adds x")
	f("CREATE DOWNSAMPLE ON x FROM a INTO b EVERY 1h AS max", "adds x")
	f("CREATE SUBSCRIPTION s ON x.rp DESTINATIONS ALL 'http://u:secret@h:1'", "adds x")
	f("DROP DATABASE x", "destroys x")
	f("DROP RETENTION POLICY p ON x", "destroys x")
	f("ALTER RETENTION POLICY p ON x DEFAULT", "destroys x")
	f("DROP MEASUREMENT m", "destroys mine")
	f("DROP SERIES FROM m", "destroys mine")
	f("DELETE FROM m", "destroys mine")
	f("DELETE WHERE host = 'a'", "destroys mine")
	f("ALTER MEASUREMENT m RENAME TO n", "destroys mine")
	f("UPDATE m SET host = 'a' WHERE host = 'b'", "destroys mine")
	f("DROP SHARD 1", "destroys")
	f("ALTER SHARD 1 ACCEPT LOSS FROM '2020-01-01' TO '2020-01-02'", "destroys")
	f("DROP USER u", "destroys")
	f("REVOKE READ ON x FROM u", "destroys x")
	f("REVOKE ALL FROM u", "destroys")
	f("DROP CONTINUOUS QUERY q ON x", "destroys x")
	f("DROP DOWNSAMPLE ON x FROM a INTO b", "destroys x")
	f("DROP SUBSCRIPTION s ON x.rp", "destroys x")
	f("KILL QUERY 1", "destroys")
	f("SHOW DATABASES; DROP SHARD 1; SELECT v FROM cpu; CREATE DATABASE x", "destroys, adds x")
	for kind := range rules {
		if !asked[kind] {
			t.Errorf("%v has a rule, but no line here", kind)
		}
	}
}
