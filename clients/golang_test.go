package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	v2 "github.com/influxdata/influxdb-client-go/v2"
	v2api "github.com/influxdata/influxdb-client-go/v2/api"
	v2http "github.com/influxdata/influxdb-client-go/v2/api/http"
	v2log "github.com/influxdata/influxdb-client-go/v2/log"
	v1 "github.com/influxdata/influxdb1-client/v2"

	"tsdbd/internal/testkit/apptest"
)

// moduleVersion returns the version of a module that this test is built with.
func moduleVersion(t *testing.T, path string) string {
	t.Helper()
	out, _, err := command(t, "", nil, "", "go", "list", "-m", "-f", "{{.Version}}", path)
	if err != nil {
		t.Fatal(err)
	}
	version, commit, untagged := strings.Cut(strings.TrimSpace(out), "-")
	if untagged {
		return commit[:8] // its day
	}
	return version
}

// loginServer starts a server with logins on, the administrator admin and the
// users writer and reader of database db; a password is the name and "!".
func loginServer(t *testing.T) *apptest.Server {
	t.Helper()
	s := start(t, "TSDBD_HTTP_AUTH_ENABLED=true")
	s.Query("", "CREATE USER admin WITH PASSWORD 'admin!' WITH ALL PRIVILEGES")
	c, err := v1.NewHTTPClient(v1.HTTPConfig{Addr: s.URL, Username: "admin", Password: "admin!"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, q := range []string{
		"CREATE DATABASE db", "CREATE USER writer WITH PASSWORD 'writer!'", "CREATE USER reader WITH PASSWORD 'reader!'",
		"GRANT WRITE ON db TO writer", "GRANT READ ON db TO reader",
	} {
		if resp, err := c.Query(v1.NewQuery(q, "", "")); err != nil || resp.Error() != nil {
			t.Fatal(q, err, resp)
		}
	}
	return s
}

// TestGoV1 uses github.com/influxdata/influxdb1-client.
func TestGoV1(t *testing.T) {
	s := newSuite(t, "Go influxdb1-client")
	s.version = moduleVersion(t, "github.com/influxdata/influxdb1-client")
	server := loginServer(t)
	client := func(user string) v1.Client {
		c, err := v1.NewHTTPClient(v1.HTTPConfig{Addr: server.URL, Username: user, Password: user + "!", Timeout: time.Minute})
		s.must(err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	admin, writer, reader := client("admin"), client("writer"), client("reader")
	_, version, err := admin.Ping(time.Second)
	s.check("ping", err)
	s.equal("ping tells a version 1", strings.HasPrefix(version, "1."), true)

	points := func(precision string, n int) v1.BatchPoints {
		bp, err := v1.NewBatchPoints(v1.BatchPointsConfig{Database: "db", Precision: precision})
		s.must(err)
		for i := range n {
			p, err := v1.NewPoint("m", map[string]string{"host": fmt.Sprint("h", i%3), "odd tag": "a,b=c d"},
				map[string]any{"f": float64(i) / 4, "i": int64(i), "s": `say "x\y"`, "b": i%2 == 0}, time.Unix(1_500_000_000+int64(i), 0))
			s.must(err)
			bp.AddPoint(p)
		}
		return bp
	}
	for _, precision := range []string{"ns", "us", "ms", "s"} {
		if err := writer.Write(points(precision, 100)); precision == "us" {
			// The client sends nanoseconds and calls them microseconds; taking
			// them would put points thousands of years away.
			s.equal("write us", err != nil, true)
		} else {
			s.check("write "+precision, err)
		}
	}
	s.equal("reader may not write", reader.Write(points("s", 1)) != nil, true)
	ask := func(c v1.Client, q v1.Query) string {
		resp, err := c.Query(q)
		if err == nil {
			err = resp.Error()
		}
		if err != nil {
			return "error: " + err.Error()
		}
		b, err := json.Marshal(resp.Results)
		s.must(err)
		return string(b)
	}
	s.equal("query", ask(reader, v1.NewQuery("SELECT count(f), sum(i), last(s) FROM m", "db", "s")),
		`[{"statement_id":0,"Series":[{"name":"m","columns":["time","count","sum","last"],"values":[[0,100,4950,"say \"x\\y\""]]}],"Messages":null}]`)
	s.equal("parameters", ask(reader, v1.NewQueryWithParameters("SELECT i FROM m WHERE host = $h AND i > $n LIMIT 1", "db", "s", map[string]any{"h": "h2", "n": 50})),
		`[{"statement_id":0,"Series":[{"name":"m","columns":["time","i"],"values":[[1500000053,53]]}],"Messages":null}]`)
	s.equal("typed parameters", ask(reader, v1.NewQueryWithParameters("SELECT $f FROM $m WHERE time < $t + $d AND host =~ $r LIMIT 1", "db", "s", map[string]any{
		"f": v1.Identifier("i"), "m": v1.Identifier("m"), "t": v1.TimeValue(time.Unix(1_500_000_000, 0)), "d": v1.DurationValue(10 * time.Second), "r": v1.RegexValue("^h[12]$"),
	})), `[{"statement_id":0,"Series":[{"name":"m","columns":["time","i"],"values":[[1500000001,1]]}],"Messages":null}]`)
	s.equal("retention policy", ask(reader, v1.NewQueryWithRP("SELECT count(i) FROM m", "db", "autogen", "s")),
		`[{"statement_id":0,"Series":[{"name":"m","columns":["time","count"],"values":[[0,100]]}],"Messages":null}]`)
	s.equal("an error of the query", ask(reader, v1.NewQuery("SELECT nosuch(i) FROM m", "db", "s")), "error: undefined function nosuch()")
	s.equal("a parse error", strings.HasPrefix(ask(reader, v1.NewQuery("SELEC", "db", "s")), "error: error parsing query: found SELEC"), true)
	s.equal("writer may not read", strings.HasPrefix(ask(writer, v1.NewQuery("SELECT * FROM m", "db", "s")), "error: "), true)
	s.equal("reader may not make databases", strings.HasPrefix(ask(reader, v1.NewQuery("CREATE DATABASE x", "", "")), "error: "), true)
	s.equal("a stranger is refused", strings.Contains(ask(client("stranger"), v1.NewQuery("SHOW DATABASES", "", "")), "authorization failed"), true)

	rows, chunks := 0, 0
	stream, err := reader.QueryAsChunk(v1.Query{Command: "SELECT * FROM m", Database: "db", Chunked: true, ChunkSize: 7, Precision: "ns"})
	s.must(err)
	for {
		resp, err := stream.NextResponse()
		if errors.Is(err, io.EOF) {
			break
		}
		s.must(err)
		for _, r := range resp.Results {
			for _, series := range r.Series {
				rows += len(series.Values)
			}
		}
		chunks++
	}
	s.must(stream.Close())
	s.equal("rows in chunks", rows, 100)
	s.equal("chunks", chunks >= 100/7, true)
	resp, err := reader.Query(v1.Query{Command: "SELECT * FROM m; SELECT count(i) FROM m", Database: "db", Chunked: true, ChunkSize: 10})
	s.check("chunks put together", err)
	s.equal("statements in chunks", len(resp.Results) >= 2, true)
	conflict, err := v1.NewBatchPoints(v1.BatchPointsConfig{Database: "db"})
	s.must(err)
	p, err := v1.NewPoint("m", nil, map[string]any{"i": "text"}, time.Unix(1_500_000_000, 0))
	s.must(err)
	conflict.AddPoint(p)
	err = writer.Write(conflict)
	s.equal("type conflict", err != nil && strings.Contains(err.Error(), "field type conflict"), true)
	missing, err := v1.NewBatchPoints(v1.BatchPointsConfig{Database: "nosuch"})
	s.must(err)
	missing.AddPoint(p)
	err = admin.Write(missing)
	s.equal("no such database", err != nil && strings.Contains(err.Error(), "database not found"), true)
}

// TestGoV2 uses github.com/influxdata/influxdb-client-go/v2 by the routes of
// version 2 that the server has.
func TestGoV2(t *testing.T) {
	s := newSuite(t, "Go influxdb-client-go v2")
	s.version = moduleVersion(t, "github.com/influxdata/influxdb-client-go/v2")
	v2log.Log = nil
	server := loginServer(t)
	ctx := t.Context()
	client := v2.NewClientWithOptions(server.URL, "admin:admin!", v2.DefaultOptions().SetUseGZip(true).SetBatchSize(50).SetPrecision(time.Second))
	defer client.Close()
	ok, err := client.Ping(ctx)
	s.check("ping", err)
	s.equal("ping", ok, true)
	health, err := client.Health(ctx)
	s.check("health", err)
	if err == nil {
		s.equal("health", health.Status, "pass")
	}
	count := func(db string) string {
		n, err := v1Count(server.URL, db)
		s.check("count", err)
		return n
	}
	blocking := client.WriteAPIBlocking("org", "db/autogen")
	s.check("blocking write", blocking.WritePoint(ctx, v2.NewPoint("m", map[string]string{"host": "a"}, map[string]any{"v": 1.5}, time.Unix(1_500_000_000, 0))))
	s.check("blocking record", blocking.WriteRecord(ctx, "m,host=b v=2 1500000000", "m,host=c v=3 1500000000"))
	blocking.EnableBatching()
	for i := range 10 {
		s.check("batched", blocking.WritePoint(ctx, v2.NewPoint("m", map[string]string{"host": fmt.Sprint("x", i)}, map[string]any{"v": 1.0}, time.Unix(1_500_000_001, 0))))
	}
	s.check("flush", blocking.Flush(ctx))
	s.equal("stored", count("db"), "13")

	async := client.WriteAPI("", "db")
	for i := range 1000 {
		async.WritePoint(v2.NewPoint("m", map[string]string{"host": "async"}, map[string]any{"v": float64(i)}, time.Unix(1_600_000_000+int64(i), 0)))
	}
	async.Flush()
	s.equal("stored asynchronously", count("db"), "1013")
	lost := client.WriteAPI("", "nosuch")
	errs := lost.Errors()
	lost.WriteRecord("m v=1")
	go lost.Flush()
	select {
	case err = <-errs:
	case <-time.After(time.Minute):
		err = nil
	}
	s.equal("no such database", err != nil && strings.Contains(err.Error(), "database not found"), true)

	s.check("delete", client.DeleteAPI().DeleteWithName(ctx, "org", "db", time.Unix(1_600_000_000, 0), time.Unix(1_600_000_099, 0), `_measurement="m" AND host="async"`))
	s.equal("after the delete", count("db"), "914")
	buckets := client.BucketsAPI()
	bucket, err := buckets.FindBucketByName(ctx, "db/autogen")
	s.check("bucket", err)
	if err == nil {
		s.equal("bucket", bucket.Name, "db/autogen")
	}
	var refused *v2http.Error
	_, err = client.QueryAPI("org").Query(ctx, `from(bucket:"db") |> range(start:0)`)
	s.equal("Flux is refused with a reason", errors.As(err, &refused) && refused.StatusCode/100 == 4, true)
	stranger := v2.NewClient(server.URL, "stranger:x")
	defer stranger.Close()
	err = stranger.WriteAPIBlocking("o", "db").WriteRecord(ctx, "m v=1")
	s.equal("a stranger is refused", errors.As(err, &refused) && refused.StatusCode == 401, true)
	tooFew := v2.NewClient(server.URL, "reader:reader!")
	defer tooFew.Close()
	err = tooFew.WriteAPIBlocking("o", "db").WriteRecord(ctx, "m v=1")
	s.equal("a reader may not write", errors.As(err, &refused) && refused.StatusCode == 403, true)

	// A server that is away for a while costs the asynchronous writer nothing.
	var retry v2api.WriteAPI
	options := v2.DefaultOptions().SetBatchSize(10).SetRetryInterval(100).SetMaxRetryInterval(200).SetMaxRetries(100)
	patient := v2.NewClientWithOptions(server.URL, "writer:writer!", options)
	defer patient.Close()
	retry = patient.WriteAPI("", "db")
	server.Kill()
	for i := range 50 {
		retry.WriteRecord(fmt.Sprintf("m,host=late v=%d %d", i, 1_700_000_000_000_000_000+i))
	}
	time.Sleep(300 * time.Millisecond)
	server.Restart()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		retry.WriteRecord("m,host=late v=0 1700000000000000000")
		retry.Flush()
		n, err := v1Count(server.URL, "db")
		if err == nil && n == "964" {
			s.check("nothing lost by a crash", nil)
			break
		}
		if time.Now().After(deadline) {
			s.check("nothing lost by a crash", fmt.Errorf("%s points, %w", n, err))
			break
		}
	}
}

// v1Count counts the points of measurement m, as the administrator.
func v1Count(url, db string) (string, error) {
	c, err := v1.NewHTTPClient(v1.HTTPConfig{Addr: url, Username: "admin", Password: "admin!"})
	if err != nil {
		return "", err
	}
	defer c.Close()
	resp, err := c.Query(v1.NewQuery("SELECT count(v) FROM m", db, "s"))
	if err != nil {
		return "", err
	}
	if err := resp.Error(); err != nil {
		return "", err
	}
	if len(resp.Results) == 0 || len(resp.Results[0].Series) == 0 {
		return "0", nil
	}
	return fmt.Sprint(resp.Results[0].Series[0].Values[0][1]), nil
}
