package influxhttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/exchange"
)

// exact is a server that knows some requests and nothing else. Its login is a token.
type exact struct {
	answers map[string]string // by path and parameters
	mu      sync.Mutex
	unknown []string
}

func (e *exact) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ping" {
		w.Header().Set("X-Influxdb-Version", "v2.7.12")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if r.Header.Get("Authorization") != "Token my token" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"code":"unauthorized","message":"unauthorized access"}`)
		return
	}
	p := r.URL.Query()
	asked := r.URL.Path
	for _, name := range []string{"limit", "offset", "orgID", "db", "rp", "q"} {
		if v := p.Get(name); v != "" {
			asked += " " + v
		}
	}
	answer, known := e.answers[asked]
	switch {
	case known && strings.HasPrefix(answer, "{"):
		fmt.Fprintln(w, answer)
	case known:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"code":"forbidden","message":%q}`, answer)
	case strings.HasPrefix(p.Get("q"), "SHOW S"), strings.HasPrefix(p.Get("q"), "SHOW U"), strings.HasPrefix(p.Get("q"), "SHOW C"):
		fmt.Fprintf(w, `{"results":[{"statement_id":0,"error":"not implemented: %s"}]}`+"\n", p.Get("q"))
	default:
		e.mu.Lock()
		e.unknown = append(e.unknown, asked)
		e.mu.Unlock()
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":"invalid","message":"unknown"}`)
	}
}

// twoTables are what InfluxDB 2.x says about five buckets of an organization: one with the
// name of a database and policy, one with a mapping of its own name, one with a mapping of
// another name, one without any, and one of the system.
func twoTables() map[string]string {
	policies := func(rows string) string {
		return table1("", `name","duration","shardGroupDuration","replicaN","default`, rows)
	}
	return map[string]string{
		"/query SHOW DATABASES":                                 table1("databases", "name", `["tele"],["plain"],["shop"],["old name"],["_monitoring"]`),
		`/query tele SHOW RETENTION POLICIES ON "tele"`:         policies(`["autogen","0s","168h0m0s",1,true],["long","0s","168h0m0s",1,false]`),
		`/query plain SHOW RETENTION POLICIES ON "plain"`:       policies(`["autogen","0s","168h0m0s",1,true],["autogen","0s","168h0m0s",1,false]`),
		`/query shop SHOW RETENTION POLICIES ON "shop"`:         policies(`["all","0s","168h0m0s",1,true]`),
		`/query old name SHOW RETENTION POLICIES ON "old name"`: policies(`["autogen","0s","168h0m0s",1,true]`),
		"/api/v2/buckets 100 0": `{"links":{},"buckets":[{"id":"0a","orgID":"0f","type":"user","name":"tele","retentionRules":[]},
			{"id":"0b","orgID":"0f","type":"user","name":"tele/long","retentionRules":[{"type":"expire","everySeconds":2592000,"shardGroupDurationSeconds":86400}]},
			{"id":"0c","orgID":"0f","type":"user","name":"plain","retentionRules":[{"type":"expire","everySeconds":7200,"shardGroupDurationSeconds":0}]},
			{"id":"0d","orgID":"0f","type":"user","name":"old name","retentionRules":[]},
			{"id":"0e","orgID":"0f","type":"user","name":"my \"own\"","retentionRules":[]},
			{"id":"10","orgID":"0f","type":"system","name":"_tasks","retentionRules":[]}]}`,
		"/api/v2/dbrps 0f": `{"content":[{"id":"1","database":"tele","retention_policy":"autogen","default":true,"orgID":"0f","bucketID":"0a","virtual":true},
			{"id":"2","database":"tele","retention_policy":"long","default":false,"orgID":"0f","bucketID":"0b","virtual":true},
			{"id":"3","database":"plain","retention_policy":"autogen","default":true,"orgID":"0f","bucketID":"0c","virtual":false},
			{"id":"0c","database":"plain","retention_policy":"autogen","default":false,"orgID":"0f","bucketID":"0c","virtual":true},
			{"id":"4","database":"shop","retention_policy":"all","default":true,"orgID":"0f","bucketID":"0d","virtual":false},
			{"id":"0d","database":"old name","retention_policy":"autogen","default":false,"orgID":"0f","bucketID":"0d","virtual":true}]}`,
		"/query tele long SHOW FIELD KEYS": `{"results":[{"statement_id":0,"series":[{"name":"a","columns":["fieldKey","fieldType"],"values":[["v","float"]]},{"name":"b c","columns":["fieldKey","fieldType"],"values":[["v","float"]]}]}]}`,
	}
}

// TestBuckets: the catalog of InfluxDB 2.x has each bucket once, with its durations, and
// tells which are missing.
func TestBuckets(t *testing.T) {
	e := &exact{answers: twoTables()}
	web := httptest.NewServer(e)
	defer web.Close()
	if _, err := connect(t, web.URL, "").Catalog(t.Context(), &exchange.Filter{}); err == nil || !strings.Contains(err.Error(), "2.x and 3.x a token: server answers 401: unauthorized access") {
		t.Errorf("without the token: %v", err)
	}
	s := connect(t, web.URL, "my token")
	c, err := s.Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err, e.unknown)
	}
	var got []string
	for _, d := range c.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			got = append(got, fmt.Sprintf("%s.%s %s %s %t", d.Name, rp.Name, rp.Duration, rp.ShardGroupDuration, rp.Name == d.DefaultRetentionPolicy))
		}
	}
	if want := "tele.autogen 0s 168h0m0s true; tele.long 720h0m0s 24h0m0s false; plain.autogen 2h0m0s 1h0m0s true; shop.all 0s 168h0m0s true"; strings.Join(got, "; ") != want {
		t.Errorf("policies %s\nwant %s", strings.Join(got, "; "), want)
	}
	if len(c.Notes) == 0 || !strings.Contains(c.Notes[0], `influx v1 dbrp create --bucket-id 0e --db "my \"own\"" --rp autogen --default`) {
		t.Errorf("notes %q", c.Notes)
	}
	if all, err := s.measurements(t.Context(), place{"tele", "long"}); err != nil || len(all) != 2 || all[0].name != "a" || all[1].name != "b c" {
		t.Errorf("measurements of a policy that is not the default: %v, %v", all, err)
	}
	if _, err := s.Catalog(t.Context(), &exchange.Filter{Database: "absent"}); err == nil || !strings.Contains(err.Error(), `influx v1 dbrp create --bucket-id ID --db "absent"`) {
		t.Errorf("a database without a mapping: %v", err)
	}
	// A token that reads data and no buckets.
	e.answers["/api/v2/buckets 100 0"] = "insufficient permissions"
	if c, err = s.Catalog(t.Context(), &exchange.Filter{}); err != nil || len(c.Data.Databases) != 4 || !strings.Contains(c.Notes[0], "their durations are not known") {
		t.Errorf("without rights: %+v, %v", c, err)
	}
	if len(e.unknown) > 0 {
		t.Errorf("requests that no such server knows: %q", e.unknown)
	}
}

// connect connects to a server with a token.
func connect(t *testing.T, url, token string) *Server {
	t.Helper()
	s, err := Connect(t.Context(), &exchange.Client{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDeletedOf3: databases that InfluxDB 3.x has deleted are left out.
func TestDeletedOf3(t *testing.T) {
	f := newFake(t, "3.4.0")
	f.extra["SHOW DATABASES"] = table1("databases", `iox::database","deleted`, `["d",false],["e-20260101T000000",true]`)
	c, err := f.connect().Catalog(t.Context(), &exchange.Filter{})
	if err != nil || len(c.Data.Databases) != 1 || c.Data.Databases[0].Name != "d" {
		t.Errorf("%+v, %v", c, err)
	}
	f.extra["SHOW RETENTION POLICIES"] = table1("", `name","duration`, fmt.Sprintf(`["autogen",%d]`, time.Hour))
	if c, err = f.connect().Catalog(t.Context(), &exchange.Filter{}); err != nil || c.Data.Databases[0].RetentionPolicies[0].Duration != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
}
