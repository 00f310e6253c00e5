package query

import (
	"reflect"
	"testing"

	"tsdbd/query/syntax"
)

// TestPlaceOf holds every kind of statement against the node that should run it, by
// hand. It fails for a rule whose statement is not here.
func TestPlaceOf(t *testing.T) {
	asked := map[reflect.Type]bool{}
	f := func(want Place, texts ...string) {
		t.Helper()
		for _, text := range texts {
			q, err := syntax.Parse(text, nil)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if got := PlaceOf(q); got != want {
				t.Errorf("%s: place %d, want %d", text, got, want)
			}
			for _, stmt := range q.Statements {
				asked[reflect.TypeOf(stmt)] = true
			}
		}
	}
	f(ThisNode, "SHOW QUERIES", "SHOW STATS", "SHOW DIAGNOSTICS", "SHOW SERVERS", "KILL QUERY 1", "SHOW STATS; KILL QUERY 7")
	f(AnyNode,
		"SELECT v FROM m", "SELECT v FROM (SELECT max(v) AS v FROM m)", "EXPLAIN SELECT v FROM m", "EXPLAIN ANALYZE SELECT v FROM m",
		"EXPLAIN SELECT v INTO t FROM m", // it writes nothing
		"SHOW DATABASES", "SHOW MEASUREMENTS", "SHOW RETENTION POLICIES ON d", "SHOW SHARDS", "SHOW SHARD GROUPS", "SHOW USERS",
		"SHOW GRANTS FOR u", "SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS", "SHOW SERIES", "SHOW TAG KEYS", "SHOW FIELD KEYS",
		"SHOW TAG VALUES WITH KEY = host", "SHOW SERIES CARDINALITY", "SHOW MEASUREMENT CARDINALITY", "SHOW FIELD KEY CARDINALITY",
		"SHOW TAG KEY CARDINALITY", "SHOW TAG VALUES CARDINALITY WITH KEY = host", "SHOW CARDINALITY", "SHOW STATS; SELECT v FROM m")
	f(Leader,
		"SELECT v INTO t FROM m", "SELECT v FROM m; SELECT v INTO t FROM m; SHOW STATS",
		"DELETE FROM m", "DROP SERIES FROM m", "DROP MEASUREMENT m", "ALTER MEASUREMENT m RENAME TO n", "UPDATE m DROP TAG t", "CREATE DATABASE x", "DROP DATABASE x",
		"CREATE RETENTION POLICY p ON d DURATION 1d REPLICATION 1", "ALTER RETENTION POLICY p ON d DEFAULT", "DROP RETENTION POLICY p ON d",
		"DROP SHARD 1", "ALTER SHARD 1 ACCEPT LOSS FROM '2020-01-01' TO '2020-01-02'", "CREATE USER u WITH PASSWORD 'p'", "SET PASSWORD FOR u = 'p'", "DROP USER u",
		"GRANT READ ON d TO u", "REVOKE READ ON d FROM u", "GRANT ALL TO u", "REVOKE ALL FROM u",
		"CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO t FROM m GROUP BY time(1m) END", "DROP CONTINUOUS QUERY q ON d",
		"EXECUTE CONTINUOUS QUERY q ON d", "CREATE SUBSCRIPTION s ON d.rp DESTINATIONS ALL 'udp://h:1'", "DROP SUBSCRIPTION s ON d.rp",
		"CREATE DOWNSAMPLE ON d FROM a INTO b EVERY 1h AS max", "DROP DOWNSAMPLE ON d FROM a INTO b", "SHOW DOWNSAMPLES")
	for kind, r := range rules {
		if !asked[kind] {
			t.Errorf("%v has a rule, but no line here", kind)
		}
		if r.place == 0 {
			t.Errorf("the rule of %v has no place", kind)
		}
	}
}
