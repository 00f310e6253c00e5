package syntax

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/golden"
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
		if strings.Contains(text, "time(1mo)") || strings.Contains(text, "a IN ('1', '2')") || strings.HasPrefix(text, "UPDATE") {
			continue // three that mean something here
		}
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
		tokens := tokenize(text)
		if len(tokens) > 0 && tokens[len(tokens)-1].tok == influxql.ILLEGAL {
			continue // of the scanner's idea it is several
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
		{"alter shard 12 accept loss from '2020-01-01' to '2020-01-02 03:04:05.5'", `ALTER SHARD 12 ACCEPT LOSS FROM '2020-01-01T00:00:00Z' TO '2020-01-02T03:04:05.5Z'`},
		{"ALTER SHARD 0 ACCEPT LOSS FROM '1677-09-21T00:12:43.145224194Z' TO '2262-04-11T23:47:16.854775806Z'", `ALTER SHARD 0 ACCEPT LOSS FROM '1677-09-21T00:12:43.145224194Z' TO '2262-04-11T23:47:16.854775806Z'`},
		{"ALTER SHARD 12 ACCEPT LOSS FROM 5 TO 6", "error: found 5, expected time in quotes at line 1, char 33"},
		{"ALTER SHARD 12 ACCEPT LOSS FROM 'yesterday' TO 'now'", "error: invalid timestamp string"},
		{"ALTER SHARD 12 LOSS", "error: found LOSS, expected ACCEPT at line 1, char 16"},
		{"EXECUTE CONTINUOUS QUERY q", "error: found EOF, expected ON at line 1, char 28"},
		{"EXECUTE CONTINUOUS QUERY q ON db FROM 1", "error: found EOF, expected TO at line 1, char 40"},
		{"EXECUTE CONTINUOUS QUERY q ON db LIMIT 1", "error: found LIMIT, expected end of statement at line 1, char 34"},
		{`show cardinality`, `SHOW CARDINALITY`},
		{`show servers; SHOW USERS`, `SHOW SERVERS; SHOW USERS`},
		{`SHOW SERVERS ON d`, "error: found ON, expected end of statement at line 1, char 14"},
		{`SHOW CARDINALITY ON "a b" FROM "m n" WITH KEY = "k l" LIMIT 3`, `SHOW CARDINALITY ON "a b" FROM "m n" WITH KEY = "k l" LIMIT 3`},
		{"SHOW CARDINALITY WITH KEY IN (a)", "error: found IN, expected = at line 1, char 27"},
		{"SHOW CARDINALITY LIMIT x", "error: found x, expected integer at line 1, char 24"},
		{"SHOW CARDINALITY WHERE a = 'b'", "error: found WHERE, expected end of statement at line 1, char 18"},
		{"SHOW EXACT CARDINALITY", "error: " + grammarError("SHOW EXACT CARDINALITY")},
		{`create downsample on "a b" from raw into hours every 1h as mean, Max where host =~ /a.*/ AND region = 'x'`, `CREATE DOWNSAMPLE ON "a b" FROM raw INTO hours EVERY 1h AS mean, max WHERE host =~ /a.*/ AND region = 'x'`},
		{`CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 90m AS count; SHOW DOWNSAMPLES`, `CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 90m AS count; SHOW DOWNSAMPLES`},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h", "error: found EOF, expected AS at line 1, char 52"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours AS mean", "error: found AS, expected EVERY at line 1, char 44"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS top", "error: a downsample has no function top, only count, distinct, first, increase, last, max, mean, median, min, mode, percentile, spread, stddev, sum"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max WHERE time > 5", "error: the condition of a downsample has no time"},
		{`create downsample on d from raw.cpu into hours every 1h group by dc, "a z" as mean`, `CREATE DOWNSAMPLE ON d FROM raw.cpu INTO hours EVERY 1h GROUP BY dc, "a z" AS mean`},
		{`create downsample on d from "raw" . /^a\/b\d'"$/ into hours every 1h group by () as mean`, `CREATE DOWNSAMPLE ON d FROM raw./^a\/b\d'"$/ INTO hours EVERY 1h GROUP BY () AS mean`},
		{`create downsample on d from raw."a b" into hours every 1h without (pod, host) as spread where x = 'y'`, `CREATE DOWNSAMPLE ON d FROM raw."a b" INTO hours EVERY 1h WITHOUT (pod, host) AS spread WHERE x = 'y'`},
		{"CREATE DOWNSAMPLE ON d FROM raw.1 INTO hours EVERY 1h AS mean", "error: found .1, expected INTO at line 1, char 32"},
		{"CREATE DOWNSAMPLE ON d FROM raw.(a) INTO hours EVERY 1h AS mean", "error: found (, expected measurement, regular expression at line 1, char 33"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h WITHOUT pod AS mean", "error: found pod, expected ( at line 1, char 61"},
		{"create downsample on d from raw into hours every 2MO tz ( 'Europe/Berlin' ) group by dc as mean", "CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 2mo tz('Europe/Berlin') GROUP BY dc AS mean"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 12mo tz('UTC') AS mean", "CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1y AS mean"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours EVERY 1d tz('Asia/Kathmandu') FROM NOW", "ALTER DOWNSAMPLE ON d FROM raw INTO hours EVERY 1d tz('Asia/Kathmandu') FROM NOW"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1mi AS mean", "error: invalid duration at line 1, char 50"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1d tz(Europe) AS mean", "error: found Europe, expected string at line 1, char 56"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1d tz('Mars') AS mean", "error: unable to find time zone Mars"},
		{"alter downsample on d from raw into hours every 30m add sum, min drop max from now", "ALTER DOWNSAMPLE ON d FROM raw INTO hours EVERY 30m ADD sum, min DROP max FROM NOW"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours DROP max", "ALTER DOWNSAMPLE ON d FROM raw INTO hours DROP max"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours FROM NOW", "error: found FROM, expected SKIP, EVERY, ADD, DROP, USE at line 1, char 43"},
		{"create downsample on d from raw into hours every 1h as max where x = 'y' use Complete", "CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max WHERE x = 'y' USE complete"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max USE default", "error: found DEFAULT, expected OFF, EXPIRED, COMPLETE at line 1, char 64"},
		{"alter downsample n on d use off", "ALTER DOWNSAMPLE n ON d USE off"},
		{"alter downsample on d from raw into hours add max from now use default", "ALTER DOWNSAMPLE ON d FROM raw INTO hours ADD max FROM NOW USE default"},
		{"ALTER DOWNSAMPLE n ON d USE", "error: found EOF, expected OFF, EXPIRED, COMPLETE, DEFAULT at line 1, char 29"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours ADD top", "error: a downsample has no function top, only count, distinct, first, increase, last, max, mean, median, min, mode, percentile, spread, stddev, sum"},
		{"create downsample on d from raw with v percentile(50), v percentile(99.9) into hours every 1h as percentile(95), max, percentile(99)", "CREATE DOWNSAMPLE ON d FROM raw WITH v percentile INTO hours EVERY 1h AS percentile, max"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS percentile(101)", "error: found 101, expected number from 0 to 100 at line 1, char 67"},
		{"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS percentile(95", "error: found EOF, expected ) at line 1, char 69"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours DROP percentile(95)", "ALTER DOWNSAMPLE ON d FROM raw INTO hours DROP percentile"},
		{"create downsample n on d from raw into hours every 1h as max", "CREATE DOWNSAMPLE n ON d FROM raw INTO hours EVERY 1h AS max"},
		{`create downsample "n m" on d from raw./^k\/x/ into hours every 1h as max`, `CREATE DOWNSAMPLE "n m" ON d FROM raw./^k\/x/ INTO hours EVERY 1h AS max`},
		{`alter downsample "on" on d add sum`, `ALTER DOWNSAMPLE "on" ON d ADD sum`},
		{"alter downsample n on d drop sum from now", "ALTER DOWNSAMPLE n ON d DROP sum FROM NOW"},
		{"alter downsample n on d skip before '2026-01-02'", "ALTER DOWNSAMPLE n ON d SKIP BEFORE '2026-01-02T00:00:00Z'"},
		{`create downsample on d from raw./^k/ with "a b" increase, x Max, x count into hours every 1h as mean`, `CREATE DOWNSAMPLE ON d FROM raw./^k/ WITH "a b" increase, x max, x count INTO hours EVERY 1h AS mean`},
		{"CREATE DOWNSAMPLE ON d FROM raw WITH x max INTO hours EVERY 1h", "CREATE DOWNSAMPLE ON d FROM raw WITH x max INTO hours EVERY 1h"},
		{"CREATE DOWNSAMPLE ON d FROM raw WITH x top INTO hours EVERY 1h AS max", "error: a downsample has no function top, only count, distinct, first, increase, last, max, mean, median, min, mode, percentile, spread, stddev, sum"},
		{"CREATE DOWNSAMPLE ON d FROM raw WITH x INTO hours EVERY 1h AS max", "error: found INTO, expected identifier at line 1, char 40"},
		{"drop downsample n on d", "DROP DOWNSAMPLE n ON d"},
		{"DROP DOWNSAMPLE n ON d FROM raw INTO hours", "error: found FROM, expected end of statement at line 1, char 24"},
		{"CREATE DOWNSAMPLE n ON d EVERY 1h AS max", "error: found EVERY, expected FROM at line 1, char 26"},
		{"DROP DOWNSAMPLE FROM raw", "error: found FROM, expected identifier at line 1, char 17"},
		{"drop downsample ON d FROM raw INTO hours", "DROP DOWNSAMPLE ON d FROM raw INTO hours"},
		{"DROP DOWNSAMPLE ON d FROM raw", "error: found EOF, expected INTO at line 1, char 31"},
		{"alter downsample on d from raw into hours skip before '2026-01-02'", "ALTER DOWNSAMPLE ON d FROM raw INTO hours SKIP BEFORE '2026-01-02T00:00:00Z'"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours SKIP", "error: found EOF, expected BEFORE at line 1, char 48"},
		{"ALTER DOWNSAMPLE ON d FROM raw INTO hours SKIP BEFORE 5", "error: found 5, expected time in quotes at line 1, char 55"},
		{"SHOW DOWNSAMPLES ON d", "error: found ON, expected end of statement at line 1, char 18"},
		{"EXECUTE QUERY", "error: " + grammarError("EXECUTE QUERY")},
		{`alter measurement "a b" rename to "c d"`, `ALTER MEASUREMENT "a b" RENAME TO "c d"`},
		{`ALTER MEASUREMENT m RENAME TAG host TO "server name"; SHOW USERS`, `ALTER MEASUREMENT m RENAME TAG host TO "server name"; SHOW USERS`},
		{`ALTER MEASUREMENT m RENAME FIELD x TO "tag"`, `ALTER MEASUREMENT m RENAME FIELD x TO "tag"`},
		{`ALTER MEASUREMENT m TO n`, "error: found TO, expected RENAME at line 1, char 21"},
		{`ALTER MEASUREMENT m RENAME TAG x`, "error: found EOF, expected TO at line 1, char 34"},
		{`ALTER MEASUREMENT m RENAME TO`, "error: found EOF, expected identifier at line 1, char 31"},
		{`update m set b = 'it\'s', a = 'x' where host =~ /a.*/ and c != 'y'`, `UPDATE m SET a = 'x', b = 'it\'s' WHERE host =~ /a.*/ AND c != 'y'`},
		{`UPDATE m SET a = 'x' WHERE host NOT IN ('a', /b.*/) AND (a IN ('IN') OR b = 'y')`, `UPDATE m SET a = 'x' WHERE host  NOT IN ('a', /b.*/) AND (a IN ('IN') OR b = 'y')`},
		{`UPDATE m DROP TAG a WHERE host IN ('p') AND b BETWEEN 1 AND 2`, `UPDATE m DROP TAG a WHERE host IN ('p') AND (b >= 1 AND b <= 2)`},
		{`UPDATE m SET a = 'x`, "error: found x, expected identifier, string, number, bool at line 1, char 17"},
		{`SHOW SERVERS; ALTER MEASUREMENT m RENAME TO "x`, "error: found x, expected identifier at line 1, char 44"},
		{`UPDATE m SET a = 'x' /* WHERE b = 'c'`, "error: found ILLEGAL, expected end of statement at line 1, char 22"},
		{`UPDATE m DROP TAG a WHERE host IN ('x') b`, "error: found b, expected end of statement at line 1, char 41"},
		{`UPDATE m DROP TAG a WHERE host IN (now())`, "error: found IN, expected end of statement at line 1, char 32"},
		{`CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max WHERE host IN ('a')`, `CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max WHERE host IN ('a')`},
		{`UPDATE m DROP TAG "a b", c; UPDATE m DROP TAG d WHERE d = 'x'`, `UPDATE m DROP TAG "a b", c; UPDATE m DROP TAG d WHERE d = 'x'`},
		{`UPDATE m WHERE a = 'b'`, "error: found WHERE, expected SET, DROP at line 1, char 10"},
		{`UPDATE m SET a = 'b' c = 'd'`, "error: found c, expected end of statement at line 1, char 22"},
		{`UPDATE m SET a = 5`, "error: the value of a tag is a string: 5"},
		{`UPDATE m SET a = ''`, "error: a tag has no empty value: use DROP TAG a"},
		{`UPDATE m DROP host`, "error: found host, expected TAG at line 1, char 15"},
		{`UPDATE m SET a 'b'`, "error: found b, expected = at line 1, char 15"},
		{"create retention policy r on d duration inf replication 1 cold 168h", "CREATE RETENTION POLICY r ON d DURATION 0s REPLICATION 1 COLD 1w"},
		{`CREATE RETENTION POLICY "cold" ON cold DURATION 30d REPLICATION 1 SHARD DURATION 1d DEFAULT FUTURE LIMIT 1h PAST LIMIT 2h COLD INF`, "CREATE RETENTION POLICY cold ON cold DURATION 30d REPLICATION 1 SHARD DURATION 1d DEFAULT FUTURE LIMIT 1h PAST LIMIT 2h COLD INF"},
		{"CREATE RETENTION POLICY cold ON cold DURATION 30d REPLICATION 1 COLD 0s DEFAULT", "CREATE RETENTION POLICY cold ON cold DURATION 30d REPLICATION 1 DEFAULT COLD 0s"},
		{"ALTER RETENTION POLICY cold ON cold COLD 7d; SHOW USERS; ALTER RETENTION POLICY default ON d COLD inf", `ALTER RETENTION POLICY cold ON cold COLD 1w; SHOW USERS; ALTER RETENTION POLICY "default" ON d COLD INF`},
		{"ALTER RETENTION POLICY r ON d /* x */ Cold /* y */ 0s -- z", "ALTER RETENTION POLICY r ON d COLD 0s"},
		{"ALTER RETENTION POLICY r ON d COLD 90m DURATION 1d DEFAULT", "ALTER RETENTION POLICY r ON d DURATION 1d DEFAULT COLD 90m"},
		{"CREATE DATABASE d WITH COLD 7d", "CREATE DATABASE d WITH COLD 1w"},
		{"CREATE DATABASE cold WITH DURATION 30d COLD 7d NAME cold", "CREATE DATABASE cold WITH DURATION 720h0m0s NAME cold COLD 1w"},
		{"CREATE DATABASE cold WITH NAME cold COLD 7d", "CREATE DATABASE cold WITH NAME cold COLD 1w"},
		{"SHOW USERS; ALTER RETENTION POLICY r ON d COLD", "error: found EOF, expected duration at line 1, char 48"},
		{"SHOW USERS; ALTER RETENTION POLICY r ON d COLD 7", "error: found 7, expected duration at line 1, char 48"},
		{"ALTER RETENTION POLICY r ON d COLD -7d", "error: found -, expected duration at line 1, char 36"},
		{"ALTER RETENTION POLICY r ON d COLD 16000w", "error: overflowed duration 16000w: choose a smaller duration or INF at line 1, char 36"},
		{"ALTER RETENTION POLICY r ON d COLD 30501w", "error: overflowed duration 30501w: choose a smaller duration or INF at line 1, char 36"},      // would be 72h
		{"ALTER RETENTION POLICY r ON d\nDURATION 30501w", "error: overflowed duration 30501w: choose a smaller duration or INF at line 2, char 10"}, // would be 72h
		{"ALTER RETENTION POLICY r ON d DURATION 1w106752d", "error: overflowed duration 1w106752d: choose a smaller duration or INF at line 1, char 40"},
		{"SELECT v FROM m WHERE time > now() - 9223372037s", "error: overflowed duration 9223372037s: choose a smaller duration or INF at line 1, char 38"},
		{"SELECT v FROM m WHERE time > 9223372036s AND h = '99999w' AND r =~ /99999w/", "SELECT v FROM m WHERE time > 9223372036s AND h = '99999w' AND r =~ /99999w/"},
		{"ALTER RETENTION POLICY r ON d COLD 1w2d3h4m5s6ms7u8ns", "ALTER RETENTION POLICY r ON d COLD 788645006007008ns"},
		{"ALTER RETENTION POLICY r ON d COLD 7d COLD 8d", "error: found COLD, expected DURATION, REPLICATION, SHARD, DEFAULT, FUTURE, PAST at line 1, char 39"},
		{"ALTER RETENTION POLICY r ON d COLD 7d FUTURE 1h", "error: found 1h, expected LIMIT at line 1, char 46"},
		{"ALTER RETENTION POLICY r ON d DURATION COLD 7d", "error: " + grammarError("ALTER RETENTION POLICY r ON d DURATION COLD 7d")},
		{"CREATE RETENTION POLICY r ON d COLD 7d", "error: found EOF, expected DURATION at line 1, char 40"},
		{"CREATE DATABASE d COLD 7d", "error: " + grammarError("CREATE DATABASE d COLD 7d")},
		{"DROP RETENTION POLICY r ON d COLD 7d", "error: " + grammarError("DROP RETENTION POLICY r ON d COLD 7d")},
	} {
		if got := parsedText(c.text); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestColdIsAName: COLD is a word of its clause alone, and a name everywhere else.
func TestColdIsAName(t *testing.T) {
	for _, text := range []string{
		"SELECT cold FROM cold", "SELECT cold AS cold FROM cold.cold.cold WHERE cold = 'cold' GROUP BY cold",
		"CREATE RETENTION POLICY cold ON cold DURATION 1d REPLICATION 1", "ALTER RETENTION POLICY cold ON cold DEFAULT",
		"DROP RETENTION POLICY cold ON cold", "CREATE DATABASE cold WITH NAME cold", "CREATE USER cold WITH PASSWORD 'cold'",
	} {
		want, err := influxql.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Parse(text, nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	q, err := Parse("SELECT cold FROM cold WHERE cold IN ('a'); ALTER RETENTION POLICY cold ON cold COLD $age", map[string]any{"age": map[string]any{"duration": "1h"}})
	if err != nil || len(q.Statements) != 2 || q.Statements[1].(*AlterRetentionPolicy).Cold != time.Hour || q.Statements[1].(*AlterRetentionPolicy).Default {
		t.Errorf("got %s, %v", q, err)
	}
}

// TestClauses: clauses of our own become InfluxQL, and nothing else does.
func TestClauses(t *testing.T) {
	same := func(text string) string { return "error: " + grammarError(text) }
	for _, c := range []struct{ text, want string }{
		{"SELECT v FROM m WHERE h IN ('a', 'b', 'c')", "SELECT v FROM m WHERE h IN ('a', 'b', 'c')"},
		{"SELECT v FROM m WHERE h NOT IN ('a', /b.*/) AND v > 1", "SELECT v FROM m WHERE h  NOT IN ('a', /b.*/) AND v > 1"},
		{"SELECT v FROM m WHERE v = 1 OR \"a b\"::field in (1, -2.5)", "SELECT v FROM m WHERE v = 1 OR \"a b\"::field IN (1, -2.5)"},
		{"SELECT v FROM m WHERE b::boolean not in (true)", "SELECT v FROM m WHERE b::boolean  NOT IN (true)"},
		{"SELECT v FROM m WHERE NOT IN ('x')", "SELECT v FROM m WHERE NOT IN ('x')"},
		{"SELECT v FROM m WHERE a.b IN ('x')", "SELECT v FROM m WHERE \"a.b\" IN ('x')"},
		{"SELECT v FROM m WHERE h IN ('it''s IN (1)')", same("SELECT v FROM m WHERE h IN ('it''s IN (1)')")},
		{"SELECT v FROM m WHERE h IN ('-- IN (1)', 'x /* ') -- , 'y'", "SELECT v FROM m WHERE h IN ('-- IN (1)', 'x /* ')"},
		{"SELECT v FROM m WHERE h =~ /IN (x)/ AND g /* IN */ IN ('a')", "SELECT v FROM m WHERE h =~ /IN (x)/ AND g IN ('a')"},
		{"SHOW TAG VALUES WITH KEY IN (a, b) WHERE h IN ('x')", "SHOW TAG VALUES WITH KEY IN (a, b) WHERE h IN ('x')"},
		{"SHOW SERIES WHERE h IN ('x')", "SHOW SERIES WHERE h IN ('x')"},
		{"DELETE FROM m WHERE h IN ('x')", "DELETE FROM m WHERE h IN ('x')"},
		{"SELECT v FROM m /* a comment, ü */ WHERE v > 1", "SELECT v FROM m WHERE v > 1"},
		{"SELECT v FROM m /* a */ , /b/ WHERE h /*'*/ =~ /*'*/ /x/ -- c\n", "SELECT v FROM m, /b/ WHERE h =~ /x/"},
		{"SELECT v FROM m /* a */ WHERE v > ", same("SELECT v FROM m /* a */ WHERE v > ")},
		// Not a set, or not unambiguous.
		{"SELECT v FROM m WHERE h IN ()", same("SELECT v FROM m WHERE h IN ()")},
		{"SELECT v FROM m WHERE h IN ('a'", same("SELECT v FROM m WHERE h IN ('a'")},
		{"SELECT v FROM m WHERE time IN (1, 2)", same("SELECT v FROM m WHERE time IN (1, 2)")},
		{"SELECT v FROM m WHERE a + b IN (1, 2)", same("SELECT v FROM m WHERE a + b IN (1, 2)")},
		{"SELECT v FROM m WHERE b IN (1, 2) + 1 > 2", same("SELECT v FROM m WHERE b IN (1, 2) + 1 > 2")},
		{"SELECT v FROM m WHERE 'a' IN ('a')", same("SELECT v FROM m WHERE 'a' IN ('a')")},
		{`SELECT v FROM m WHERE "Time" IN (1)`, same(`SELECT v FROM m WHERE "Time" IN (1)`)},
		{"SELECT v FROM m WHERE h IN (g)", same("SELECT v FROM m WHERE h IN (g)")},

		{"SELECT v FROM m WHERE v BETWEEN 1 AND 2.5 AND h = 'a'", "SELECT v FROM m WHERE (v >= 1 AND v <= 2.5) AND h = 'a'"},
		{"SELECT v FROM m WHERE time BETWEEN '2020-01-01' AND now() - 1h", "SELECT v FROM m WHERE (time >= '2020-01-01' AND time <= now() - 1h)"},
		{"SELECT v FROM m WHERE v NOT BETWEEN -1 AND 1", "SELECT v FROM m WHERE (v < -1 OR v > 1)"},
		{"SELECT v FROM m WHERE time NOT BETWEEN 1 AND 2", same("SELECT v FROM m WHERE time NOT BETWEEN 1 AND 2")},
		{"SELECT v FROM m WHERE v BETWEEN 1 OR 2", same("SELECT v FROM m WHERE v BETWEEN 1 OR 2")},

		{"SELECT mean(v) FROM m GROUP BY h, time(1mo)", "SELECT mean(v) FROM m GROUP BY h, time(31d, '1mo')"},
		{"SELECT mean(v) FROM m GROUP BY time( 1Q , 4d ) fill(0)", "SELECT mean(v) FROM m GROUP BY time(93d, '1q 4d') fill(0)"},
		{"SELECT mean(v) FROM m GROUP BY time(2y)", "SELECT mean(v) FROM m GROUP BY time(744d, '2y')"},
		{"SELECT mean(v) FROM m GROUP BY time(1mo, 40d)", same("SELECT mean(v) FROM m GROUP BY time(1mo, 40d)")},
		{"CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1mo) END", "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(31d, '1mo') END"},

		{"SELECT v FROM m WHERE time > NOW( ) - 1MO AND time < now() + 2y - 1h", "SELECT v FROM m WHERE time > now('-1mo') AND time < now('+2y') - 1h"},
		{"SELECT v FROM m WHERE time BETWEEN now() - 1q AND now() - 1mo + 2d", "SELECT v FROM m WHERE (time >= now('-1q') AND time <= now('-1mo') + 2d)"},
		{"SELECT v FROM m WHERE time > now() - 1d - 1mo", same("SELECT v FROM m WHERE time > now() - 1d - 1mo")},
		{"SELECT v FROM m WHERE time > now() * 1mo", same("SELECT v FROM m WHERE time > now() * 1mo")},
		{"DELETE FROM m WHERE time < now() - 1y", "DELETE FROM m WHERE time < now('-1y')"},

		{"SELECT mean(v) FROM m WHERE time > 0 GROUP BY time(1h) fill(previous, 1d) LIMIT 3", "SELECT mean(v) FROM m WHERE time > 0 GROUP BY time(1h) fill(previous) LIMIT 3"},
		{"SELECT mean(v) FROM m GROUP BY time(1h) fill(linear, 1d)", same("SELECT mean(v) FROM m GROUP BY time(1h) fill(linear, 1d)")},
		{"CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) fill(previous, 1d) END", "error: HAVING and fill(previous, duration) are not supported in continuous queries"},

		{
			"SELECT mean(v), max(v) AS top FROM m GROUP BY time(1h), h HAVING mean(v) > 1 AND top IN (1, 2) ORDER BY time DESC LIMIT 3 tz('Europe/Berlin')",
			"SELECT mean, top FROM (SELECT mean(v), max(v) AS top FROM m GROUP BY time(1h), h TZ('Europe/Berlin')) WHERE mean > 1 AND top IN (1, 2) GROUP BY h ORDER BY time DESC LIMIT 3 TZ('Europe/Berlin')",
		},
		{"SELECT time, sum(v) INTO o FROM m GROUP BY h fill(none) HAVING count(v) > 5", "SELECT sum INTO o FROM (SELECT sum(v), count(v) AS having_1 FROM m GROUP BY h fill(none)) WHERE having_1 > 5 GROUP BY h"},
		{"SELECT mean(v) FROM m GROUP BY time(1h), * HAVING abs(derivative(mean(v))) > 1", "SELECT mean FROM (SELECT mean(v), derivative(mean(v)) AS having_1 FROM m GROUP BY time(1h), *) WHERE abs(having_1) > 1 GROUP BY *"},
		{"SELECT x FROM (SELECT mean(v) AS x FROM m GROUP BY h HAVING x > 1) WHERE x < 5", "SELECT x FROM (SELECT x FROM (SELECT mean(v) AS x FROM m GROUP BY h) WHERE x > 1 GROUP BY h) WHERE x < 5"},
		{"SELECT x FROM (SELECT mean(v) AS x FROM m GROUP BY h HAVING x > 1) HAVING x < 5", "SELECT x FROM (SELECT x FROM (SELECT x FROM (SELECT mean(v) AS x FROM m GROUP BY h) WHERE x > 1 GROUP BY h)) WHERE x < 5"},
		{"SELECT mean(*) FROM m GROUP BY h HAVING mean_v > 1", "SELECT * FROM (SELECT mean(*) FROM m GROUP BY h) WHERE mean_v > 1 GROUP BY h"},
		{"SELECT mean(*) FROM m GROUP BY h HAVING mean(v) > 1", "error: HAVING mean(v): select it by name"},
		{"EXPLAIN SELECT mean(v) FROM m GROUP BY h HAVING mean(v) > 1", "EXPLAIN SELECT mean FROM (SELECT mean(v) FROM m GROUP BY h) WHERE mean > 1 GROUP BY h"},
		{"SELECT mean(v) FROM m GROUP BY h HAVING", same("SELECT mean(v) FROM m GROUP BY h HAVING")},
		{"SELECT having FROM m WHERE h IN ('a')", "SELECT having FROM m WHERE h IN ('a')"},
		{"SELECT mean(v) FROM m GROUP BY h HAVING mean(v) >", "error: HAVING mean(v) >: found EOF, expected identifier, string, number, bool at line 1, char 50"},
		{"SELECT v FROM m WHERE h IN ('a') AND", "error: found EOF, expected identifier, string, number, bool at line 1, char 38"},
		{"SELECT v FROM m WHERE h IN ('a'); SELECT v FROM n; SELECT w FROM m WHERE h IN ('b')", "SELECT v FROM m WHERE h IN ('a'); SELECT v FROM n; SELECT w FROM m WHERE h IN ('b')"},
	} {
		if got := parsedText(c.text); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	q, err := Parse("SELECT v FROM m WHERE h IN ($a, 'b')", map[string]any{"a": "it's"})
	if err != nil || q.String() != `SELECT v FROM m WHERE h IN ('it\'s', 'b')` {
		t.Errorf("got %s, %v", q, err)
	}
	// A statement prints as what reads the same.
	for _, text := range []string{
		"SELECT v FROM m WHERE h IN ('a', /b/) AND \"x y\"::float NOT IN (1, -2.5, true) OR NOT NOT IN ('i0', 'i1') OR i0 IN (1) OR \"i1\" IN (2)",
		"SHOW MEASUREMENTS WHERE h NOT IN ('a')", "EXPLAIN SELECT v FROM m WHERE h IN ('a')", "DROP SERIES WHERE h IN ('a')",
		"CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO o FROM m WHERE h NOT IN ('a', 'b') GROUP BY time(1h) END",
		"SELECT mean(v) FROM m WHERE h IN ('a', 'b') AND time > now() - 1mo GROUP BY time(1mo) HAVING mean(v) > 1",
	} {
		once := parsedText(text)
		if twice := parsedText(once); once != twice || strings.HasPrefix(once, "error") {
			t.Errorf("%s becomes %s", once, twice)
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

// FuzzParse: what the grammar accepts is not touched, whatever is in it, and
// what is ours prints as something that reads again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"SELECT v FROM m WHERE h IN ('a', 'b') AND v BETWEEN 1 AND 2",
		"SELECT mean(v) FROM m GROUP BY time(1mo, 1d), h fill(previous, 1h) HAVING mean(v) > 1 ORDER BY time DESC",
		"EXECUTE CONTINUOUS QUERY q ON d FROM 1 TO 2; SELECT /a/ FROM /b/ -- c",
		"SELECT mean(v) FROM (SELECT v FROM m HAVING v > 1) GROUP BY h HAVING max(v) NOT IN (1)",
		"CREATE RETENTION POLICY cold ON d DURATION INF REPLICATION 1 COLD 7d; ALTER RETENTION POLICY cold ON d COLD INF DEFAULT",
		"CREATE DATABASE cold WITH COLD 0s NAME cold; CREATE DATABASE d WITH NAME cold COLD 1h; ALTER RETENTION POLICY r ON d COLD $x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, wantErr := influxql.ParseQuery(text)
		got, err := Parse(text, nil)
		if wantErr == nil && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q: %v, %v; the grammar says %v", text, got, err, want)
		}
		if err == nil && wantErr != nil {
			_ = got.String()
		}
	})
}
