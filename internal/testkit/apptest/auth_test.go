package apptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The people of the matrix, by the letter that stands for them below.
var people = map[byte][2]string{
	'S': {"stranger", "pw-s"}, // no grants
	'R': {"reader", "pw-r"},   // READ on mine
	'W': {"writer", "pw-w"},   // WRITE on mine
	'B': {"both", "pw-b"},     // ALL on mine
	'O': {"outsider", "pw-o"}, // ALL on canary
	'A': {"admin", "pw-a"},
	'x': {"reader", "wrong"},
	'u': {"nobody", "pw-r"},
	'n': {"", ""},
}

const everyone = "SRWBOA"

// authServer starts a server with logins, the people and two databases. With
// off, it is started again without.
func authServer(t *testing.T, off bool, env ...string) *Server {
	t.Helper()
	s := New(t)
	s.Env = append([]string{"TSDBD_HTTP_AUTH_ENABLED=true", "TSDBD_HTTP_PPROF_ENABLED=true"}, env...)
	s.Restart()
	run := func(q string) {
		t.Helper()
		status, body := s.as('A', "POST", "/query?db=mine", url.Values{"q": {q}})
		if status != 200 || strings.Contains(body, "error") {
			t.Fatalf("%s: %d %s", q, status, body)
		}
	}
	for _, q := range []string{
		`CREATE USER admin WITH PASSWORD 'pw-a' WITH ALL PRIVILEGES`,
		`CREATE DATABASE mine`, `CREATE DATABASE canary`,
		`CREATE USER stranger WITH PASSWORD 'pw-s'`, `CREATE USER reader WITH PASSWORD 'pw-r'`, `CREATE USER writer WITH PASSWORD 'pw-w'`,
		`CREATE USER both WITH PASSWORD 'pw-b'`, `CREATE USER outsider WITH PASSWORD 'pw-o'`,
		`GRANT READ ON mine TO reader`, `GRANT WRITE ON mine TO writer`, `GRANT ALL ON mine TO both`, `GRANT ALL ON canary TO outsider`,
	} {
		run(q)
	}
	for _, db := range []string{"mine", "canary"} {
		if status, body := s.as('A', "POST", "/write?db="+db, url.Values{}, db+"_cpu,host="+db+"_host "+db+"_field=1"); status != 204 {
			t.Fatalf("write: %d %s", status, body)
		}
		run(fmt.Sprintf("CREATE CONTINUOUS QUERY %[1]s_cq ON %[1]s BEGIN SELECT mean(v) INTO %[1]s_target FROM x GROUP BY time(1h) END", db))
	}
	if off {
		s.Stop()
		s.Env = s.Env[1:]
		s.Restart()
	}
	return s
}

// as sends a form, or a body, with the login of one of the people.
func (s *Server) as(who byte, method, path string, form url.Values, body ...string) (status int, answer string) {
	s.t.Helper()
	var r io.Reader
	kind := "application/x-www-form-urlencoded"
	switch {
	case len(body) > 0:
		r, kind = strings.NewReader(body[0]), "text/plain"
		if route, _, _ := strings.Cut(path, "?"); strings.HasSuffix(route, "/v1/metrics") || strings.HasSuffix(route, "/prom/write") || strings.HasSuffix(route, "/api/v1/write") {
			kind = "application/x-protobuf" // others are refused whoever asks
		}
	case method == "POST":
		r = strings.NewReader(form.Encode())
	case len(form) > 0:
		path += "?" + form.Encode()
	}
	req, err := http.NewRequest(method, s.URL+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if p := people[who]; p[0] != "" {
		req.SetBasicAuth(p[0], p[1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// statementMatrix says who may run a statement with db=mine; all others get
// 403. The statements do no harm to those after them.
var statementMatrix = []struct{ q, may string }{
	{`SELECT * FROM mine_cpu`, "RBA"},
	{`SELECT * FROM autogen.mine_cpu`, "RBA"},
	{`SELECT * FROM mine..mine_cpu`, "RBA"},
	{`SELECT * FROM canary..canary_cpu`, "OA"},
	{`SELECT * FROM "canary"."autogen"."canary_cpu"`, "OA"},
	{`SELECT * FROM canary.autogen./.*/`, "OA"},
	{`SELECT * FROM mine_cpu, canary..canary_cpu`, "A"},
	{`SELECT * FROM (SELECT * FROM canary..canary_cpu)`, "OA"},
	{`SELECT * FROM (SELECT * FROM (SELECT * FROM canary..canary_cpu), mine_cpu)`, "A"},
	{`SELECT count(mine_field) FROM mine_cpu WHERE time > 0 GROUP BY time(10000w) FILL(none)`, "RBA"},
	{`SELECT * INTO copy FROM mine_cpu`, "BA"},
	{`SELECT * INTO mine..copy FROM mine_cpu`, "BA"},
	{`SELECT * INTO canary..copy FROM mine_cpu`, "A"},
	{`SELECT * INTO copy FROM canary..nosuch`, "A"},
	{`SELECT * INTO canary..copy FROM canary..canary_cpu`, "OA"},
	{`SELECT * INTO copy FROM (SELECT * FROM canary..nosuch)`, "A"},
	{`EXPLAIN SELECT * FROM mine_cpu`, "RBA"},
	{`EXPLAIN SELECT * FROM canary..canary_cpu`, "OA"},
	{`EXPLAIN ANALYZE SELECT * FROM mine_cpu`, "RBA"},
	{`EXPLAIN ANALYZE SELECT * FROM (SELECT * FROM canary..canary_cpu)`, "OA"},
	{`SELECT * FROM mine_cpu; SELECT * FROM canary..canary_cpu`, "A"},
	{`SHOW DATABASES; DROP DATABASE nosuch`, "A"},
	{`SHOW DATABASES`, everyone},
	{`SHOW MEASUREMENTS`, "RBA"},
	{`SHOW MEASUREMENTS ON canary`, "OA"},
	{`SHOW MEASUREMENTS ON canary.autogen`, "OA"},
	{`SHOW MEASUREMENTS ON canary.*`, "OA"},
	{`SHOW MEASUREMENTS ON *.*`, everyone},
	{`SHOW MEASUREMENTS WITH MEASUREMENT = mine_cpu`, "RBA"},
	{`SHOW SERIES`, "RBA"},
	{`SHOW SERIES ON canary`, "OA"},
	{`SHOW SERIES FROM canary..canary_cpu`, "A"}, // reads mine by name of the request, too
	{`SHOW SERIES ON canary FROM canary_cpu`, "OA"},
	{`SHOW SERIES ON mine FROM canary..canary_cpu`, "A"},
	{`SHOW TAG KEYS`, "RBA"},
	{`SHOW TAG KEYS ON canary`, "OA"},
	{`SHOW TAG KEYS FROM canary..canary_cpu`, "A"},
	{`SHOW TAG VALUES WITH KEY = host`, "RBA"},
	{`SHOW TAG VALUES ON canary WITH KEY = host`, "OA"},
	{`SHOW TAG VALUES FROM canary..canary_cpu WITH KEY = host`, "A"},
	{`SHOW FIELD KEYS`, "RBA"},
	{`SHOW FIELD KEYS ON canary`, "OA"},
	{`SHOW FIELD KEYS FROM canary..canary_cpu`, "A"},
	{`SHOW SERIES CARDINALITY`, "RBA"},
	{`SHOW SERIES CARDINALITY ON canary`, "OA"},
	{`EXECUTE CONTINUOUS QUERY nosuch ON mine`, "A"},
	{`EXECUTE CONTINUOUS QUERY nosuch ON canary`, "A"},
	{`SHOW CARDINALITY`, "RBA"},
	{`SHOW CARDINALITY ON canary`, "OA"},
	{`SHOW CARDINALITY ON canary FROM canary_cpu WITH KEY = host LIMIT 3`, "OA"},
	{`SHOW CARDINALITY ON mine FROM mine_cpu`, "RBA"},
	{`SHOW SERIES EXACT CARDINALITY`, "RBA"},
	{`SHOW SERIES EXACT CARDINALITY ON canary`, "OA"},
	{`SHOW SERIES EXACT CARDINALITY ON canary FROM canary_cpu`, "OA"},
	{`SHOW SERIES EXACT CARDINALITY FROM canary..canary_cpu`, "A"},
	{`SHOW MEASUREMENT CARDINALITY ON canary`, "OA"},
	{`SHOW MEASUREMENT EXACT CARDINALITY ON canary`, "OA"},
	{`SHOW MEASUREMENT EXACT CARDINALITY`, "RBA"},
	{`SHOW FIELD KEY CARDINALITY`, "RBA"},
	{`SHOW FIELD KEY EXACT CARDINALITY ON canary`, "OA"},
	{`SHOW TAG KEY CARDINALITY`, "RBA"},
	{`SHOW TAG KEY EXACT CARDINALITY ON canary`, "OA"},
	{`SHOW TAG VALUES CARDINALITY WITH KEY = host`, "RBA"},
	{`SHOW TAG VALUES EXACT CARDINALITY ON canary WITH KEY = host`, "OA"},
	{`SHOW RETENTION POLICIES`, "RBA"},
	{`SHOW RETENTION POLICIES ON canary`, "OA"},
	{`SHOW CONTINUOUS QUERIES`, "RBA"},
	{`SHOW QUERIES`, "RBA"},
	{`SHOW USERS`, "A"},
	{`SHOW GRANTS FOR reader`, "A"},
	{`SHOW SHARDS`, "A"},
	{`SHOW SHARD GROUPS`, "A"},
	{`SHOW SUBSCRIPTIONS`, "A"},
	{`SHOW STATS`, "A"},
	{`SHOW STATS FOR 'runtime'`, "A"},
	{`SHOW DIAGNOSTICS`, "A"},
	{`KILL QUERY 99999999`, "A"},
	{`DELETE FROM nosuch`, "WBA"},
	{`DELETE WHERE host = 'nosuch'`, "WBA"},
	{`DROP SERIES FROM nosuch`, "WBA"},
	{`DROP MEASUREMENT nosuch`, "A"},
	{`DROP SHARD 99999999`, "A"},
	{`DROP RETENTION POLICY nosuch ON mine`, "WBA"},
	{`DROP RETENTION POLICY nosuch ON canary`, "OA"},
	{`DROP CONTINUOUS QUERY nosuch ON mine`, "WBA"},
	{`DROP CONTINUOUS QUERY nosuch ON canary`, "OA"},
	{`CREATE CONTINUOUS QUERY again ON mine BEGIN SELECT mean(v) INTO t FROM x GROUP BY time(1h) END`, "BA"},
	{`CREATE CONTINUOUS QUERY again2 ON mine BEGIN SELECT mean(v) INTO canary..t FROM x GROUP BY time(1h) END`, "A"},
	{`CREATE CONTINUOUS QUERY again3 ON mine BEGIN SELECT mean(v) INTO t FROM canary..x GROUP BY time(1h) END`, "A"},
	{`CREATE CONTINUOUS QUERY again4 ON canary BEGIN SELECT mean(v) INTO t FROM x GROUP BY time(1h) END`, "OA"},
	{`CREATE DATABASE mine`, "A"},
	{`DROP DATABASE nosuch`, "A"},
	{`CREATE RETENTION POLICY extra ON mine DURATION 7d REPLICATION 1`, "A"},
	{`ALTER RETENTION POLICY extra ON mine DURATION 8d`, "A"},
	{`CREATE USER extra WITH PASSWORD 'p'`, "A"},
	{`CREATE USER extra2 WITH PASSWORD 'p' WITH ALL PRIVILEGES`, "A"},
	{`SET PASSWORD FOR extra = 'q'`, "A"},
	{`SET PASSWORD FOR reader = 'pw-r'`, "A"},
	{`DROP USER nosuch`, "A"},
	{`GRANT READ ON mine TO extra`, "A"},
	{`REVOKE READ ON mine FROM extra`, "A"},
	{`GRANT ALL TO extra`, "A"},
	{`REVOKE ALL FROM extra`, "A"},
	{`CREATE SUBSCRIPTION s ON mine.autogen DESTINATIONS ALL 'udp://127.0.0.1:1'`, "A"},
	{`DROP SUBSCRIPTION nosuch ON mine.autogen`, "A"},
}

// TestStatementMatrix runs every kind of statement as everyone.
func TestStatementMatrix(t *testing.T) {
	t.Parallel()
	s := authServer(t, false)
	cells := 0
	for i, row := range statementMatrix {
		for who := range people {
			// A check of a password takes 50 ms and stands before the statement
			// is read: some statements show it.
			if who == 'x' && i%10 != 0 || who == 'u' && i%10 != 5 {
				continue
			}
			cells++
			want := 403
			switch {
			case strings.IndexByte("xun", who) >= 0:
				want = 401
			case strings.IndexByte(row.may, who) >= 0:
				want = 200
			}
			status, body := s.as(who, "POST", "/query?db=mine", url.Values{"q": {row.q}})
			if status != want {
				t.Errorf("%s as %s: %d %s, want %d", row.q, people[who][0], status, body, want)
			}
			// What was not asked for by name is not told.
			if strings.IndexByte("OA", who) < 0 && !strings.Contains(row.q, "canary") && strings.Contains(body, "canary") {
				t.Errorf("%s as %s names another database: %s", row.q, people[who][0], body)
			}
			if want == 403 && !strings.Contains(body, "error authorizing query: "+people[who][0]+" not authorized to execute statement '") {
				t.Errorf("%s as %s: %s", row.q, people[who][0], body)
			}
		}
	}
	// The placeholders of bound parameters stand for databases as well.
	for who, want := range map[byte]int{'R': 403, 'O': 200, 'A': 200} {
		status, body := s.as(who, "POST", "/query?db=mine", url.Values{
			"q": {`SELECT * FROM $db..canary_cpu`}, "params": {`{"db":{"identifier":"canary"}}`},
		})
		if status != want {
			t.Errorf("bound database as %s: %d %s, want %d", people[who][0], status, body, want)
		}
	}
	// The database of the request counts where the statement names none.
	for who, want := range map[byte]int{'R': 403, 'O': 200, 'A': 200} {
		if status, body := s.as(who, "GET", "/query", url.Values{"db": {"canary"}, "q": {"SHOW SERIES"}}); status != want {
			t.Errorf("db=canary as %s: %d %s, want %d", people[who][0], status, body, want)
		}
	}
	t.Logf("%d cells", cells)
}

// An old password, and a user that was dropped, are no good from the answer on.
func TestOldPasswords(t *testing.T) {
	t.Parallel()
	s := authServer(t, false)
	f := func(name, password string, status int) {
		t.Helper()
		got, body := s.as('n', "GET", "/query", url.Values{"q": {"SHOW DATABASES"}, "u": {name}, "p": {password}})
		if got != status {
			t.Errorf("%s with %s: %d %s", name, password, got, body)
		}
	}
	run := func(q string) {
		t.Helper()
		if status, body := s.as('A', "POST", "/query", url.Values{"q": {q}}); status != 200 || strings.Contains(body, "error") {
			t.Fatalf("%s: %d %s", q, status, body)
		}
	}
	f("reader", "pw-r", 200)
	run(`SET PASSWORD FOR reader = 'new'`)
	f("reader", "pw-r", 401)
	f("reader", "new", 200)
	run(`DROP USER reader`)
	f("reader", "new", 401)
	run(`CREATE USER reader WITH PASSWORD 'third'`)
	f("reader", "new", 401)
	f("reader", "third", 200)
	// Grants went with the user, and a grant counts from the answer on.
	ask := func(status int) {
		t.Helper()
		got, body := s.as('n', "GET", "/query", url.Values{"q": {"SHOW SERIES"}, "db": {"mine"}, "u": {"reader"}, "p": {"third"}})
		if got != status {
			t.Errorf("%d %s, want %d", got, body, status)
		}
	}
	ask(403)
	run(`GRANT READ ON mine TO reader`)
	ask(200)
	run(`REVOKE ALL ON mine FROM reader`)
	ask(403)
	run(`GRANT ALL TO reader`)
	ask(200)
	run(`REVOKE ALL FROM reader`)
	ask(403)
	for _, q := range []string{`CREATE USER long WITH PASSWORD '` + strings.Repeat("a", 73) + `'`, `SET PASSWORD FOR reader = '` + strings.Repeat("a", 73) + `'`} {
		if _, body := s.as('A', "POST", "/query", url.Values{"q": {q}}); !strings.Contains(body, `"error":"password is longer than 72 bytes"`) {
			t.Errorf("73 bytes: %s", body)
		}
	}
	s.Stop()
}

// TestStatementTexts holds the words of refusals.
func TestStatementTexts(t *testing.T) {
	t.Parallel()
	s := authServer(t, false)
	f := func(who byte, q, want string) {
		t.Helper()
		_, body := s.as(who, "POST", "/query?db=mine", url.Values{"q": {q}})
		var answer struct{ Error string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Error != want {
			t.Errorf("%s: %q, want %q", q, answer.Error, want)
		}
	}
	f('S', `SHOW USERS`, `error authorizing query: stranger not authorized to execute statement 'SHOW USERS', requires admin privilege`)
	f('S', `SELECT v FROM m`, `error authorizing query: stranger not authorized to execute statement 'SELECT v FROM m', requires READ on mine`)
	f('R', `SELECT v INTO x FROM m`, `error authorizing query: reader not authorized to execute statement 'SELECT v INTO x FROM m', requires WRITE on mine`)
	f('R', `CREATE USER eve WITH PASSWORD 'topsecret'`, `error authorizing query: reader not authorized to execute statement 'CREATE USER eve WITH PASSWORD [REDACTED]', requires admin privilege`)
	f('R', `SET PASSWORD FOR admin = 'topsecret'`, `error authorizing query: reader not authorized to execute statement 'SET PASSWORD FOR admin = [REDACTED]', requires admin privilege`)
	if status, body := s.as('O', "POST", "/write?db=mine", nil, "m v=1"); status != 403 || body != `{"error":"\"outsider\" user is not authorized to write to database \"mine\""}`+"\n" {
		t.Errorf("write: %d %s", status, body)
	}
	for who, want := range map[byte]string{'S': `[]`, 'R': `[["mine"]]`, 'W': `[["mine"]]`, 'O': `[["canary"]]`, 'A': `[["mine"],["canary"]]`} {
		_, body := s.as(who, "GET", "/query", url.Values{"q": {"SHOW DATABASES"}})
		if values := `"values":` + want; want != "[]" && !strings.Contains(body, values) || want == "[]" && strings.Contains(body, "values") {
			t.Errorf("databases of %s: %s", people[who][0], body)
		}
	}
}
