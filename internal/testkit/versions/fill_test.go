package versions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// origin is the time of the first row: a Monday, the beginning of a shard group.
const origin = int64(1_700_438_400_000_000_000)

// batchRows is how many a batch has of a measurement.
const batchRows = 125

// batch returns the lines of the rows that have a number: five hosts, all types, three
// weeks, with every seventh row over one of the batch before.
func batch(number int) string {
	var b strings.Builder
	for i := range batchRows {
		n := number*batchRows + i
		if i%7 == 0 && number > 0 {
			n -= batchRows
		}
		at := origin + int64(n%(4*batchRows))*50*60*1e9
		fmt.Fprintf(&b, "cpu,host=h%d,region=r%d usage=%.2f,count=%di,idle=%t,note=\"row %d of batch %d\" %d\n",
			n%5, n%2, float64(n*37%1000)/10+float64(number)/100, int64(n)*int64(number+1), n%3 == 0, n, number, at)
		fmt.Fprintf(&b, "disk,host=h%d,päth=/dev/sd\\ %d free=%di,ratio=%g %d\n", n%5, n%3, 1<<40-int64(n)<<20, 1/float64(n+1), at)
	}
	return b.String()
}

// histogram is a native histogram with an exemplar, as OTLP.
const histogram = `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
{"name":"latency","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[{"timeUnixNano":"1700438460000000000","count":"6","sum":20.5,"scale":1,"zeroCount":"1","positive":{"offset":2,"bucketCounts":["1","3","1"]}}]}},
{"name":"size","histogram":{"aggregationTemporality":2,"dataPoints":[{"timeUnixNano":"1700438460000000000","count":"1","sum":3,"bucketCounts":["0","1"],"explicitBounds":[1],
"exemplars":[{"timeUnixNano":"1700438450000000000","asDouble":3,"traceId":"5b8efff798038103d269b633813fc60c"}]}]}}]}]}]}`

// fill gives a server all that a data directory can hold, and kills it. Some of it is
// merged, some flushed and not merged, and some in the log alone.
func fill(t testing.TB, s *apptest.Server) {
	t.Helper()
	post := func(path, body, want string) {
		t.Helper()
		path, query, _ := strings.Cut(path, "?")
		params, _ := url.ParseQuery(query)
		status, answer, err := send(s, http.MethodPost, path, params, body)
		if err != nil || status >= 300 || !strings.Contains(answer, want) {
			t.Fatalf("%s: %d %s %v", path, status, answer, err)
		}
	}
	flush := func(more ...string) {
		t.Helper()
		s.Stop()
		s.Env = append(slices.Clone(small), more...)
		s.Restart()
	}
	for _, q := range []string{
		`CREATE DATABASE db WITH DURATION INF SHARD DURATION 7d NAME raw`,
		`CREATE RETENTION POLICY hourly ON db DURATION INF REPLICATION 1 SHARD DURATION 52w`,
		`CREATE DATABASE "päivä 2"; CREATE DATABASE gone; CREATE DATABASE prom`,
		`CREATE USER admin WITH PASSWORD 'not a secret' WITH ALL PRIVILEGES`,
		`CREATE USER reader WITH PASSWORD 'not a secret'; GRANT READ ON db TO reader; GRANT ALL ON prom TO reader`,
		`CREATE CONTINUOUS QUERY cq ON db BEGIN SELECT mean(usage) INTO db.hourly.late FROM db.raw.cpu GROUP BY time(1h) END`,
		`CREATE SUBSCRIPTION s ON db.raw DESTINATIONS ALL 'udp://127.0.0.1:9'`,
	} {
		s.Query("", q)
	}
	s.Write("gone", "m v=1 1")
	s.Write("päivä 2", "m,tag=a v=1i,w=2i 1\nm v=2i 2")
	post("/api/boards?db=db", `{"name":"Host","board":{"version":1,"range":{"from":"now-6h","to":"now"},"panels":[{"title":"CPU"}]}}`, "edition")
	s.Write("db", batch(0))
	flush()
	s.Write("db", batch(1))
	flush("TSDBD_DATA_COMPACT_AFTER=200ms")
	await(t, "merges", func() bool { return merged(t, s.Dir) })
	s.Query("db", `CREATE DOWNSAMPLE ON db FROM raw./^cpu$/ INTO hourly EVERY 1h AS mean, max, count, distinct, percentile`)
	settle(t, s)
	flush()
	s.Write("db", batch(2))
	post("/api/v1/otlp/v1/metrics?db=prom", histogram, "")
	flush()
	s.Query("db", fmt.Sprintf(`DELETE FROM cpu WHERE host = 'h3' AND time < %d`, origin+30*3600*1e9))
	s.Query("db", `DROP SERIES FROM disk WHERE host = 'h4'`)
	s.Query("db", `ALTER MEASUREMENT disk RENAME TO volume`)
	flush()
	s.Write("db", batch(3))
	s.Query("db", fmt.Sprintf(`DELETE FROM cpu WHERE host = 'h2' AND time < %d`, origin+10*3600*1e9))
	s.Query("päivä 2", `ALTER MEASUREMENT m RENAME FIELD w TO width`)
	s.Query("", `DROP DATABASE gone; CREATE DATABASE late`)
	settle(t, s)
	s.Kill()
}

// small has little of the log preallocated, and nothing flushed or merged by itself.
var small = []string{
	"TSDBD_DATA_WAL_SEGMENT_SIZE=1MiB", "TSDBD_DATA_FLUSH_IDLE=1h", "TSDBD_DATA_COMPACT_AFTER=1h",
	"TSDBD_CLUSTER_LOG_MAX_SIZE=1MiB", "TSDBD_CLUSTER_ELECTION_TIMEOUT=1s",
}

// start starts a server on a directory.
func start(t testing.TB, dir string, args ...string) *apptest.Server {
	t.Helper()
	s := apptest.New(t, args...)
	s.Dir, s.Env = dir, slices.Clone(small)
	s.Restart()
	return s
}

// alone returns the flags of a cluster of one node.
func alone(t testing.TB) []string {
	bind := apptest.FreeAddress(t)
	return []string{"-cluster-node", "n1", "-cluster-bind", bind, "-cluster-join", "n1=" + bind}
}

func send(s *apptest.Server, method, path string, params url.Values, body string) (int, string, error) {
	if !strings.Contains(path, "otlp") {
		return s.Do(context.Background(), method, path, params, body)
	}
	resp, err := http.Post(s.URL+path+"?"+params.Encode(), "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, "", resp.Body.Close()
}

// merged reports whether no shard has more than one file of rows.
func merged(t testing.TB, dir string) bool {
	t.Helper()
	shards, err := filepath.Glob(filepath.Join(dir, "db-*", "shard-*"))
	if err != nil || len(shards) == 0 {
		t.Fatalf("no shards in %s: %v", dir, err)
	}
	for _, shard := range shards {
		if files, _ := filepath.Glob(filepath.Join(shard, "*.tsm")); len(files) > 1 {
			return false
		}
	}
	return true
}

// settle waits until all windows of downsamples are computed.
func settle(t testing.TB, s *apptest.Server) {
	t.Helper()
	await(t, "downsamples", func() bool {
		answer := s.Query("", "SHOW DOWNSAMPLES")
		return !strings.Contains(answer, `"name"`) || strings.Contains(answer, `Z",0,1,`) // none waiting, all filled in
	})
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still no %s", what)
		}
	}
}

// question is a request and its answer.
type question struct {
	Path   string          `json:"path"`
	DB     string          `json:"db,omitempty"`
	Query  string          `json:"query,omitempty"`
	Answer json.RawMessage `json:"answer"`
}

// questions are asked of a server with what fill has written.
func questions() (out []question) {
	influxql := func(db string, queries ...string) {
		for _, q := range queries {
			out = append(out, question{Path: "/query", DB: db, Query: q})
		}
	}
	influxql("",
		"SHOW DATABASES", "SHOW USERS", "SHOW GRANTS FOR reader", "SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS",
		"SHOW RETENTION POLICIES ON db", "SHOW MEASUREMENTS ON db", "SHOW FIELD KEYS ON db", "SHOW TAG KEYS ON db",
		"SHOW SERIES ON db", "SHOW SERIES ON prom", `SHOW FIELD KEYS ON "päivä 2"`)
	influxql("db",
		"SELECT * FROM cpu LIMIT 60", "SELECT * FROM volume ORDER BY time DESC LIMIT 40",
		"SELECT count(*) FROM cpu, volume GROUP BY host", "SELECT sum(count), mean(usage), max(usage), first(note), last(idle) FROM cpu GROUP BY time(7d), region fill(none)",
		"SELECT count(usage) FROM cpu WHERE idle = true AND note =~ /batch [13]/ GROUP BY host",
		"SELECT sum(free), min(ratio) FROM volume GROUP BY *",
		"SELECT count(*) FROM hourly.cpu GROUP BY host", "SELECT max(max_usage), sum(count_usage) FROM hourly.cpu GROUP BY time(7d) fill(none)",
		"SELECT percentile(usage, 90), count(distinct(note)) FROM cpu GROUP BY time(7d) fill(none)",
		"SELECT percentile_usage, distinct_note FROM hourly.cpu LIMIT 3")
	influxql("päivä 2", "SELECT * FROM m", "SELECT * FROM /.*/ GROUP BY *")
	influxql("prom", "SELECT * FROM /^(latency|size.*)$/") // without __metadata__, whose times are those of the write
	for _, q := range []string{`latency`, `histogram_quantile(0.5, latency)`, `{__name__=~"size.*"}`} {
		out = append(out, question{Path: "/prometheus/prom/api/v1/query?time=1700438470", Query: q})
	}
	return append(out, question{Path: "/api/boards/{board}", DB: "db"})
}

// ask returns the questions with what a server answers.
func ask(t testing.TB, s *apptest.Server, list []question) []question {
	t.Helper()
	out := slices.Clone(list)
	_, boards, err := s.Do(context.Background(), http.MethodGet, "/api/boards", url.Values{"db": {"db"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	_, board, _ := strings.Cut(boards, `"id":"`)
	board, _, _ = strings.Cut(board, `"`)
	for i := range out {
		q := &out[i]
		path, query, _ := strings.Cut(q.Path, "?")
		params, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		path = strings.Replace(path, "{board}", board, 1)
		method := http.MethodGet
		if q.DB != "" {
			params.Set("db", q.DB)
		}
		if path == "/query" {
			method = http.MethodPost
			params.Set("q", q.Query)
			params.Set("epoch", "ns")
		} else if q.Query != "" {
			params.Set("query", q.Query)
		}
		status, body, err := s.Do(context.Background(), method, path, params, "")
		if err != nil || status != http.StatusOK || strings.Contains(body, `"error"`) {
			t.Fatalf("%s %s: %d %s %v", q.Path, q.Query, status, body, err)
		}
		q.Answer = bytes.ReplaceAll(compact(t, []byte(body)), []byte(`"id":"`+board+`"`), []byte(`"id":"{board}"`))
	}
	return out
}

// expect compares what a server answers with what it should.
func expect(t testing.TB, s *apptest.Server, when string, want []question) {
	t.Helper()
	for i, got := range ask(t, s, want) {
		if !bytes.Equal(got.Answer, want[i].Answer) {
			t.Errorf("%s: %s %s %s:\n%.1500s\nwant\n%.1500s", when, got.Path, got.DB, got.Query, got.Answer, want[i].Answer)
		}
	}
}

func compact(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
