package influxhttp

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
)

// TestCatalog: what there is besides rows.
func TestCatalog(t *testing.T) {
	f := newFake(t, "1.8.10")
	maps := map[string]string{
		"SHOW DATABASES":                       table1("databases", "name", `["_internal"],["d"],["e \"1\""]`),
		`SHOW RETENTION POLICIES ON "d"`:       table1("", `name","duration","shardGroupDuration","replicaN","default`, `["autogen","0s","168h0m0s",1,false],["short","72h0m0s","24h0m0s",3,true]`),
		`SHOW RETENTION POLICIES ON "e \"1\""`: table1("", `name","duration","shardGroupDuration","replicaN","default`, `["autogen","0s","0s",1,true]`),
		"SHOW CONTINUOUS QUERIES":              `{"results":[{"series":[{"name":"_internal","columns":["name","query"]},{"name":"d","columns":["name","query"],"values":[["q","CREATE CONTINUOUS QUERY q ON d BEGIN SELECT 1 END"]]}]}]}`,
		"SHOW SUBSCRIPTIONS":                   `{"results":[{"series":[{"name":"d","columns":["retention_policy","name","mode","destinations"],"values":[["short","s","ALL",["http://h:1","udp://o'h:2"]]]}]}]}`,
		"SHOW USERS":                           table1("", `user","admin`, `["root",true],["a \"b\"",false]`),
		`SHOW GRANTS FOR "root"`:               table1("", `database","privilege`, ""),
		`SHOW GRANTS FOR "a \"b\""`:            table1("", `database","privilege`, `["d","READ"],["e \"1\"","ALL PRIVILEGES"],["gone","READ"],["d","NO PRIVILEGES"]`),
	}
	f.extra = maps
	c, err := f.connect().Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	if want := []*meta.Database{
		{Name: "d", DefaultRetentionPolicy: "short", RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen", ShardGroupDuration: 7 * day, ReplicaN: 1}, {Name: "short", Duration: 3 * day, ShardGroupDuration: day, ReplicaN: 1}}},
		{Name: `e "1"`, DefaultRetentionPolicy: "autogen", RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen", ShardGroupDuration: 7 * day, ReplicaN: 1}}},
	}; !reflect.DeepEqual(c.Data.Databases, want) {
		t.Errorf("databases %+v", c.Data.Databases)
	}
	if want := []exchange.Continuous{{Database: "d", Name: "q", Query: "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT 1 END"}}; !slices.Equal(c.Queries, want) {
		t.Errorf("continuous queries %q", c.Queries)
	}
	if want := []string{
		`CREATE SUBSCRIPTION "s" ON "d"."short" DESTINATIONS ALL 'http://h:1', 'udp://o\'h:2'`,
		`CREATE USER "root" WITH PASSWORD '...' WITH ALL PRIVILEGES`,
		`CREATE USER "a \"b\"" WITH PASSWORD '...'`,
		`GRANT READ ON "d" TO "a \"b\""`,
		`GRANT ALL ON "e \"1\"" TO "a \"b\""`,
	}; !slices.Equal(c.Statements, want) {
		t.Errorf("statements %q", c.Statements)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "does not tell its shards") {
		t.Errorf("notes %q", c.Notes)
	}
}

// TestWithoutDownsamples: an old tsdbd does not know the statement that shows them, and has
// none.
func TestWithoutDownsamples(t *testing.T) {
	for answer, want := range map[string]int{"error parsing query: found DOWNSAMPLES, expected CONTINUOUS": 0, "not authorized": 1} {
		f := newFake(t, "1.8.10", someRows()...)
		f.groups = [][2]string{}
		for _, statement := range []string{"SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS", "SHOW USERS"} {
			f.extra[statement] = `{"results":[{}]}`
		}
		f.hook = func(q string, w http.ResponseWriter) bool {
			if q == "SHOW DOWNSAMPLES" {
				http.Error(w, fmt.Sprintf(`{"error":%q}`, answer), http.StatusBadRequest)
			}
			return q == "SHOW DOWNSAMPLES"
		}
		s := f.connect()
		s.kind = tsdbd
		c, err := s.Catalog(t.Context(), &exchange.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Notes) != want {
			t.Errorf("%s: notes %q", answer, c.Notes)
		}
	}
}

// TestPoliciesOf3: a policy of a 1.x client is a database of InfluxDB 3.x.
func TestPoliciesOf3(t *testing.T) {
	f := newFake(t, "3.4.0")
	f.extra["SHOW DATABASES"] = table1("", "iox::database", `["d/long"],["d"]`)
	f.extra["SHOW RETENTION POLICIES"] = table1("", `name","duration`, `["x",86400000000000]`)
	s := f.connect()
	c, err := s.Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	d := c.Data.Databases
	if len(d) != 1 || len(d[0].RetentionPolicies) != 2 || d[0].DefaultRetentionPolicy != "autogen" || d[0].RetentionPolicy("long").Duration != 24*time.Hour {
		t.Errorf("databases %+v", d)
	}
	for p, want := range map[place]string{{"d", "long"}: "d/long", {"d", "autogen"}: "d"} {
		if got := s.database(p); got != want {
			t.Errorf("%v: %s", p, got)
		}
	}
}
