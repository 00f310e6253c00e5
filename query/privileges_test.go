package query

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tsdbd/meta"
	"tsdbd/query/syntax"
)

// TestNeeds holds every kind of statement against what it should take, by hand.
// R and W are followed by the database; the request's is "mine". It fails for a
// rule whose statement is not here.
func TestNeeds(t *testing.T) {
	asked := map[reflect.Type]bool{}
	f := func(text, want string) {
		t.Helper()
		q, err := syntax.Parse(text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		stmt := q.Statements[0]
		asked[reflect.TypeOf(stmt)] = true
		var got []string
		for _, n := range Needs(stmt, "mine") {
			switch {
			case n.Admin:
				got = append(got, "admin")
			case n.Privilege == meta.ReadPrivilege:
				got = append(got, "R "+n.Database)
			case n.Privilege == meta.WritePrivilege:
				got = append(got, "W "+n.Database)
			default:
				got = append(got, fmt.Sprint(n))
			}
		}
		if have := strings.Join(got, ", "); have != want {
			t.Errorf("%s: needs %q, want %q", text, have, want)
		}
	}
	f(`SELECT v FROM cpu`, "R mine")
	f(`SELECT v FROM other..cpu`, "R other")
	f(`SELECT v FROM other.rp.cpu, cpu`, "R other, R mine")
	f(`SELECT v FROM "other"."rp"./c.*/`, "R other")
	f(`SELECT v FROM (SELECT v FROM other..cpu)`, "R other")
	f(`SELECT v FROM (SELECT max(v) AS v FROM (SELECT v FROM deep..cpu), other..cpu), cpu`, "R deep, R other, R mine")
	f(`SELECT v INTO other..cpu FROM cpu`, "R mine, W other")
	f(`SELECT v INTO target FROM other..cpu`, "R other, W mine")
	f(`SELECT v INTO x..t FROM (SELECT v FROM y..a)`, "R y, W x")
	f(`EXPLAIN SELECT v FROM other..cpu`, "R other")
	f(`EXPLAIN ANALYZE SELECT v FROM (SELECT v FROM other..cpu)`, "R other")
	f(`SHOW DATABASES`, "")
	f(`SHOW MEASUREMENTS`, "R mine")
	f(`SHOW MEASUREMENTS ON other`, "R other")
	f(`SHOW MEASUREMENTS ON other.rp`, "R other")
	f(`SHOW MEASUREMENTS ON other.*`, "R other")
	f(`SHOW MEASUREMENTS ON *.*`, "")
	f(`SHOW RETENTION POLICIES`, "R mine")
	f(`SHOW RETENTION POLICIES ON other`, "R other")
	f(`SHOW CONTINUOUS QUERIES`, "R mine")
	f(`SHOW QUERIES`, "R mine")
	for _, show := range []string{
		"SHOW SERIES %s FROM %s", "SHOW TAG KEYS %s FROM %s", "SHOW FIELD KEYS %s FROM %s",
		"SHOW TAG VALUES %s FROM %s WITH KEY = host", "SHOW SERIES CARDINALITY %s FROM %s",
		"SHOW SERIES EXACT CARDINALITY %s FROM %s", "SHOW MEASUREMENT CARDINALITY %s FROM %s",
		"SHOW MEASUREMENT EXACT CARDINALITY %s FROM %s", "SHOW FIELD KEY CARDINALITY %s FROM %s",
		"SHOW FIELD KEY EXACT CARDINALITY %s FROM %s", "SHOW TAG KEY CARDINALITY %s FROM %s",
		"SHOW TAG KEY EXACT CARDINALITY %s FROM %s", "SHOW TAG VALUES CARDINALITY %s FROM %s WITH KEY = host",
		"SHOW TAG VALUES EXACT CARDINALITY %s FROM %s WITH KEY = host",
	} {
		f(fmt.Sprintf(show, "", "cpu"), "R mine")
		f(fmt.Sprintf(show, "", "other..cpu"), "R mine, R other")
		f(fmt.Sprintf(show, "ON other", "cpu"), "R other")
		f(fmt.Sprintf(show, "ON other", "third..cpu"), "R other, R third")
		f(strings.Replace(fmt.Sprintf(show, "ON other", "x"), " FROM x", "", 1), "R other")
		f(strings.Replace(fmt.Sprintf(show, "", "x"), " FROM x", "", 1), "R mine")
	}
	f(`SHOW CARDINALITY`, "R mine")
	f(`SHOW CARDINALITY ON other FROM cpu WITH KEY = host`, "R other")
	f(`DELETE FROM cpu`, "W mine")
	f(`DELETE WHERE host = 'a'`, "W mine")
	f(`DROP SERIES FROM cpu`, "W mine")
	f(`ALTER MEASUREMENT cpu RENAME TO mem`, "W mine")
	f(`UPDATE cpu SET host = 'a' WHERE host = 'b'`, "W mine")
	f(`DROP RETENTION POLICY rp ON other`, "W other")
	f(`DROP CONTINUOUS QUERY q ON other`, "W other")
	f(`DROP DOWNSAMPLE ON other FROM a INTO b`, "W other")
	f(`SHOW DOWNSAMPLES`, "R mine")
	f(`CREATE CONTINUOUS QUERY q ON other BEGIN SELECT mean(v) INTO t FROM cpu GROUP BY time(1m) END`, "R other, W other")
	f(`CREATE CONTINUOUS QUERY q ON a BEGIN SELECT mean(v) INTO b..t FROM c..cpu GROUP BY time(1m) END`, "R a, R c, W b")
	f(`CREATE CONTINUOUS QUERY q ON a BEGIN SELECT mean(v) INTO b..t FROM (SELECT v FROM c..cpu) GROUP BY time(1m) END`, "R a, R c, W b")
	for _, admin := range []string{
		"CREATE DATABASE x", "DROP DATABASE x", "CREATE RETENTION POLICY p ON mine DURATION 1d REPLICATION 1",
		"ALTER RETENTION POLICY p ON mine DEFAULT", "CREATE USER u WITH PASSWORD 'p'", "CREATE USER u WITH PASSWORD 'p' WITH ALL PRIVILEGES",
		"SET PASSWORD FOR u = 'p'", "DROP USER u", "GRANT READ ON mine TO u", "REVOKE READ ON mine FROM u", "GRANT ALL TO u", "REVOKE ALL FROM u",
		"SHOW USERS", "SHOW GRANTS FOR u", "SHOW SHARDS", "SHOW SHARD GROUPS", "SHOW STATS", "SHOW DIAGNOSTICS", "KILL QUERY 1",
		"DROP MEASUREMENT m", "DROP SHARD 1", "ALTER SHARD 1 ACCEPT LOSS FROM '2020-01-01' TO '2020-01-02'", "CREATE SUBSCRIPTION s ON mine.rp DESTINATIONS ALL 'udp://h:1'", "DROP SUBSCRIPTION s ON mine.rp",
		"SHOW SUBSCRIPTIONS", "SHOW SERVERS", "EXECUTE CONTINUOUS QUERY q ON mine",
		"CREATE DOWNSAMPLE ON mine FROM a INTO b EVERY 1h AS max",
	} {
		f(admin, "admin")
	}
	for kind := range rules {
		if !asked[kind] {
			t.Errorf("%v has a rule, but no line here", kind)
		}
	}
}
