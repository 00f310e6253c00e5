package apptest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
)

// TestDownsampleKilled kills the server again and again while it computes windows and
// takes rows of old windows and deletes. In the end the target has what the source gives.
func TestDownsampleKilled(t *testing.T) {
	t.Parallel()
	s := Start(t)
	// All windows of a shard group are computed, also where it is empty.
	s.Query("", "CREATE DATABASE db WITH SHARD DURATION 1h NAME autogen; CREATE RETENTION POLICY tier ON db DURATION INF REPLICATION 1 SHARD DURATION 1h")
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	var lines strings.Builder
	for i := range 5000 { // to be filled in
		fmt.Fprintf(&lines, "m,w=%d v=%di %d\n", i%7, i, int64(i)*1e8)
	}
	s.Write("db", lines.String())
	s.Query("db", "CREATE DOWNSAMPLE ON db FROM autogen INTO tier EVERY 1s AS count, max, mean")
	for range 4 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+rnd.IntN(1500))*time.Millisecond)
		for ctx.Err() == nil {
			var body strings.Builder
			for range 20 {
				fmt.Fprintf(&body, "m,w=%d v=%di %d\n", rnd.IntN(7), rnd.IntN(1000), rnd.Int64N(5000)*1e8)
			}
			_, _, _ = s.Do(ctx, http.MethodPost, "/write", url.Values{"db": {"db"}}, body.String())
			if rnd.IntN(20) == 0 {
				from := rnd.Int64N(500)
				q := fmt.Sprintf("DELETE FROM m WHERE w = '%d' AND time >= %ds AND time < %ds", rnd.IntN(7), from, from+rnd.Int64N(20))
				_, _, _ = s.Do(ctx, http.MethodPost, "/query", url.Values{"db": {"db"}, "q": {q}}, "")
			}
		}
		cancel()
		s.Kill()
		s.Restart()
	}
	for waiting := true; waiting; time.Sleep(50 * time.Millisecond) {
		waiting = !strings.Contains(s.Query("", "SHOW DOWNSAMPLES"), `Z",0,1,`) // none waiting, all filled in
	}
	want := s.Query("db", "SELECT count(v) AS count_v, max(v) AS max_v, sum(v) AS sum_v FROM autogen.m WHERE time >= 0 AND time < 600s GROUP BY time(1s), w fill(none)")
	got := s.Query("db", "SELECT count_v, max_v, sum_v FROM tier.m GROUP BY w")
	if got != want || !strings.Contains(want, `"w":"6"`) {
		t.Errorf("the target has\n%.2000s\nwant\n%.2000s", got, want)
	}
}

// TestDownsampleLimits: the limits on what clients select do not keep windows from being
// computed.
func TestDownsampleLimits(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_QUERY_MAX_SELECT_POINT=3", "TSDBD_QUERY_MAX_SELECT_SERIES=1", "TSDBD_QUERY_MAX_SELECT_BUCKETS=2"}
	s.Restart()
	s.Query("", "CREATE DATABASE db WITH SHARD DURATION 1h NAME autogen; CREATE RETENTION POLICY tier ON db DURATION INF REPLICATION 1 SHARD DURATION 1h")
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, "m,w=%d v=%di %d\n", i%2, i, int64(i)*1e8)
	}
	s.Write("db", lines.String())
	if got := s.Query("db", "SELECT count(v) FROM m WHERE time >= 0 AND time < 4s"); !strings.Contains(got, "limit exceeded") {
		t.Fatalf("no limit: %s", got)
	}
	s.Query("db", "CREATE DOWNSAMPLE ON db FROM autogen INTO tier EVERY 1s AS count")
	for waiting := true; waiting; time.Sleep(50 * time.Millisecond) {
		got := s.Query("", "SHOW DOWNSAMPLES")
		if strings.Contains(got, "exceeded") {
			t.Fatal(got)
		}
		waiting = !strings.Contains(got, `Z",0,1,`)
	}
	if got := s.Query("db", "SELECT count_v FROM tier.m WHERE w = '0' LIMIT 1"); !strings.Contains(got, `,5]`) {
		t.Errorf("the target has %s", got)
	}
	if got := s.Query("", "SHOW DOWNSAMPLES"); !strings.Contains(got, `"0s",8,`) {
		t.Errorf("the target has other rows than 8: %s", got)
	}
	s.Stop() // writes files
	s.Restart()
	if got := s.Query("", "SHOW DOWNSAMPLES"); !strings.Contains(got, `"0s",8,`) || strings.Contains(got, `"0s",8,0,`) {
		t.Errorf("the target has other rows than 8, or takes nothing on disk: %s", got)
	}
}

// TestDownsamplePromQL: PromQL has the same values after the samples have expired, and says where
// they are from.
func TestDownsamplePromQL(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_RETENTION_CHECK_INTERVAL=100ms"}
	s.Restart()
	s.Query("", "CREATE DATABASE db WITH SHARD DURATION 1h NAME raw; CREATE RETENTION POLICY tens ON db DURATION INF REPLICATION 1 SHARD DURATION 1d")
	var lines strings.Builder
	for i := range 3600 {
		fmt.Fprintf(&lines, "up,job=a value=%di %d\nhttp_total,job=b value=%di %d\n", i*i%17, int64(i)*1e9, i*3, int64(i)*1e9)
	}
	s.Write("db", lines.String())
	s.Query("db", "CREATE DOWNSAMPLE ON db FROM raw INTO tens EVERY 10s AS mean, max, min, first, last")
	for waiting := true; waiting; time.Sleep(50 * time.Millisecond) {
		waiting = !strings.Contains(s.Query("", "SHOW DOWNSAMPLES"), `Z",0,1,`)
	}
	ask := func(status int, path string, parameters url.Values) string {
		t.Helper()
		got, body, err := s.Do(t.Context(), http.MethodGet, "/prometheus/db/api/v1/"+path, parameters, "")
		if err != nil || got != status {
			t.Fatalf("%s %v: %d, %s, %v", path, parameters, got, body, err)
		}
		return string(body)
	}
	requests := []struct {
		path       string
		parameters url.Values
	}{
		{"query", url.Values{"query": {"last_over_time(up[10s])"}, "time": {"999.999"}}},
		{"query_range", url.Values{"query": {"sum(max_over_time(up[1m])) - sum(avg_over_time(http_total[20s]))"}, "start": {"99.999"}, "end": {"3599.999"}, "step": {"60"}}},
		{"query_range", url.Values{"query": {`delta(http_total{job="b"}[5m])`}, "start": {"599.999"}, "end": {"3599.999"}, "step": {"5m"}}},
		{"query_range", url.Values{"query": {"min_over_time(count_over_time(up[30s])[5m:30s] offset 1m)"}, "start": {"899.999"}, "end": {"3599.999"}, "step": {"1m"}}},
		{"query", url.Values{"query": {`label_replace(up @ 99.999, "x", "$1", "job", "(.*)")`}, "time": {"3599.999"}}},
		{"query", url.Values{"query": {"absent(up)"}, "time": {"99.999"}}},
		{"label/__name__/values", url.Values{"start": {"0"}, "end": {"3600"}}},
		{"label/job/values", url.Values{"match[]": {"up"}, "start": {"0"}, "end": {"3600"}}},
		{"series", url.Values{"match[]": {"up", "http_total"}, "start": {"0"}, "end": {"3600"}}},
		{"labels", url.Values{"start": {"0"}, "end": {"3600"}}},
	}
	var want []string
	for _, r := range requests {
		want = append(want, ask(http.StatusOK, r.path, r.parameters))
	}
	s.Query("", "ALTER RETENTION POLICY raw ON db DURATION 1d")
	for deadline := time.Now().Add(20 * time.Second); strings.Contains(s.Query("db", "SHOW SHARDS"), `"raw"`); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("raw does not expire: " + s.Query("db", "SHOW SHARDS") + s.Query("db", "SHOW DOWNSAMPLES"))
		}
	}
	for i, r := range requests {
		data, rest, told := strings.Cut(ask(http.StatusOK, r.path, r.parameters), `,"infos"`)
		if told {
			data += "}"
		}
		if data != want[i] || !strings.Contains(data, `"success"`) || strings.Contains(data, `"result":[]`) != (i == 5) {
			t.Errorf("%s %v:\n%s\nwant\n%s", r.path, r.parameters, data, want[i])
		}
		if told = strings.Contains(rest, "samples of raw") && strings.Contains(rest, "are from the downsample tens, in windows of 10s"); told != strings.HasPrefix(r.path, "query") {
			t.Errorf("%s %v: infos %s", r.path, r.parameters, rest)
		}
	}
	lost := url.Values{"query": {"quantile_over_time(0.9, up[1m])"}, "time": {"999"}}
	if got := ask(http.StatusOK, "query", lost); !strings.Contains(got, `"warnings":["PromQL warning: samples of raw from 1970-01-01T00:15:39Z to 1970-01-01T00:16:39Z are lost, and the downsample tens does not answer for them: it does not keep percentile"]`) {
		t.Errorf("nothing is said of what is lost: %s", got)
	}
	off := url.Values{"query": {"last_over_time(up[10s])"}, "time": {"999.999"}, "downsamples": {"off"}}
	if got := ask(http.StatusOK, "query", off); got != `{"status":"success","data":{"resultType":"vector","result":[]}}` {
		t.Errorf("without downsamples: %s", got)
	}
	off.Set("downsamples", "never")
	if got := ask(http.StatusBadRequest, "query", off); !strings.Contains(got, `it must be one of [off expired complete], not \"never\"`) {
		t.Errorf("a wrong use: %s", got)
	}
}
