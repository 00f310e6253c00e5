package query

import (
	"context"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// No statement that parses may panic or leave a view open. SELECT has its own
// tests.
func FuzzStatements(f *testing.F) {
	for _, q := range []string{
		`SHOW TAG VALUES FROM cpu, rp2./x/ WITH KEY IN (host, az) WHERE host = 'a' AND time > 1s LIMIT 1 OFFSET 2`,
		`SHOW SERIES EXACT CARDINALITY FROM /c/ WHERE host != '' GROUP BY host, *, /a/ LIMIT 3`,
		`SHOW MEASUREMENTS ON *.* WITH MEASUREMENT =~ /c/ WHERE host =~ /a/ OR (az = 'x')`,
		`SHOW FIELD KEY CARDINALITY GROUP BY host, time(1h)`,
		`DELETE FROM cpu WHERE host::tag = 'a' AND v::field > 1 OR time < now() - 1h`,
		`DROP SERIES WHERE true`, `SHOW TAG KEYS WITH KEY != host WHERE 'a' = host`,
		`CREATE DATABASE x WITH DURATION 1d SHARD DURATION 1h FUTURE LIMIT 1h NAME y; SHOW RETENTION POLICIES ON x`,
		`CREATE DATABASE x WITH COLD 1d NAME y; ALTER RETENTION POLICY rp2 ON db COLD INF; CREATE RETENTION POLICY c ON db DURATION INF REPLICATION 1 COLD 0s; SHOW RETENTION POLICIES`,
		`ALTER RETENTION POLICY rp2 ON db DURATION 1h DEFAULT; DROP RETENTION POLICY autogen ON db; SHOW SERIES`,
		`CREATE CONTINUOUS QUERY c ON db BEGIN SELECT mean(v) INTO o FROM cpu GROUP BY time(1h) END; SHOW CONTINUOUS QUERIES`,
		`GRANT ALL ON db TO u; REVOKE READ ON db FROM u; SHOW GRANTS FOR u`, `KILL QUERY 1 ON "h"; SHOW QUERIES`,
		`CREATE DOWNSAMPLE n ON db FROM autogen INTO rp2 EVERY 1h AS max; ALTER DOWNSAMPLE n ON db SKIP BEFORE '2000-01-01'; SHOW DOWNSAMPLES; DROP DOWNSAMPLE n ON db`,
		`CREATE CONTINUOUS QUERY c ON db BEGIN SELECT mean(v) INTO o FROM cpu GROUP BY time(1h) END; EXECUTE CONTINUOUS QUERY c ON db FROM 0 TO 1; ALTER SHARD 1 ACCEPT LOSS FROM '2000-01-01' TO '2000-01-02'`,
		`ALTER MEASUREMENT cpu RENAME TO mem; UPDATE cpu SET host = 'a' WHERE host IN ('b'); SHOW CARDINALITY ON db; SHOW SERVERS`,
		`SHOW STATS; SHOW DIAGNOSTICS; SHOW SHARDS; SHOW SHARD GROUPS; DROP SHARD 1; SHOW SHARDS`,
	} {
		f.Add(q, "db", 0)
	}
	f.Fuzz(func(t *testing.T, text, db string, chunk int) {
		q, err := syntax.Parse(text, nil)
		if err != nil {
			return
		}
		for _, stmt := range q.Statements {
			switch stmt.(type) {
			case *influxql.SelectStatement, *influxql.ExplainStatement:
				return
			}
		}
		store := sampleStore(t)
		e := New(Options{
			Storage: store, Admin: store,
			HashPassword:  func(p string) (string, error) { return p, nil },
			CheckPassword: func(hash, p string) bool { return hash == p },
		})
		_ = e.Execute(context.Background(), q, ExecuteOptions{Database: db, ChunkSize: chunk % 3}, func(r *result.Result) error {
			if r.Err != nil && strings.Contains(r.Err.Error(), "[panic:") {
				t.Errorf("%s: %v", text, r.Err)
			}
			for _, s := range r.Series {
				for i := range s.Values {
					if s.Values[i].Len() != s.Rows {
						t.Errorf("%s: column %d has %d of %d rows", text, i, s.Values[i].Len(), s.Rows)
					}
				}
			}
			return nil
		})
		if store.Views() != 0 {
			t.Errorf("%s: %d views left open", text, store.Views())
		}
	})
}
