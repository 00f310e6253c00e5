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
	s.Stop() // writes files
	s.Restart()
	if got := s.Query("", "SHOW DOWNSAMPLES"); !strings.Contains(got, `"0s",`) || strings.Contains(got, `"0s",0,`) {
		t.Errorf("the target takes nothing on disk: %s", got)
	}
}
