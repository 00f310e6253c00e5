package apptest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestManyMeasurements asks for all of very many measurements, and writes to all of them
// at once, where there is little memory. The server answers or refuses, and serves on.
func TestManyMeasurements(t *testing.T) {
	t.Parallel()
	const n, limit = 70_000, 88 << 20
	_, wrap := memoryCgroup(t, limit)
	s := New(t)
	s.Restart()
	s.Query("", "CREATE DATABASE db")
	lines := func(lo, hi int, at int64) string {
		var b strings.Builder
		for i := lo; i < hi; i++ {
			fmt.Fprintf(&b, "m%06d,h=a v=%d %d\n", i, i, at)
		}
		return b.String()
	}
	for lo := 0; lo < n; lo += 5000 {
		s.Write("db", lines(lo, lo+5000, 1))
	}
	s.Stop()
	s.Wrap = wrap
	s.Restart()
	memory := watch(s)
	s.http.Timeout = 10 * time.Minute // for each: with many other processes some take minutes
	for _, c := range []struct {
		q    string
		rows int // 0: refused, or all of them
	}{
		{q: "SELECT * FROM /.*/ LIMIT 1"},
		{q: "SELECT mean(v) FROM /.*/ GROUP BY *"},
		{q: "SELECT last(v), h FROM /./ ORDER BY time DESC"},
		{"SELECT max(v) FROM (SELECT v FROM /m0000.*/)", 100},
		{"SELECT v FROM m000007", 1},
	} {
		status, body, err := s.Do(t.Context(), "GET", "/query", url.Values{"db": {"db"}, "q": {c.q}, "chunked": {"true"}, "chunk_size": {"1000"}}, "")
		rows := strings.Count(body, `"values":`)
		if err != nil || status != 200 || !(rows == c.rows || c.rows == 0 && (rows == n || strings.Contains(body, "memory"))) {
			t.Errorf("%s: %d, %d series, %v %.200s", c.q, status, rows, err, body)
		}
	}
	for _, at := range []int64{2, 100 * 86400e9} { // the second in a new shard
		status, body, err := s.Do(t.Context(), "POST", "/write", url.Values{"db": {"db"}}, lines(0, n, at))
		if err != nil || status != 204 && (status != 503 || !strings.Contains(body, "memory")) {
			t.Errorf("write to all measurements: %d, %v %s", status, err, body)
		}
	}
	// Memory is given back: small requests go on.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, body, err := s.Do(t.Context(), "POST", "/write", url.Values{"db": {"db"}}, lines(0, 200, 3)); err != nil {
			t.Fatal(err)
		} else if status == 204 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a small write: %d %s", status, body)
		}
	}
	if got := s.Query("db", "SELECT v FROM m000199"); !strings.Contains(got, `[[1,199],`) {
		t.Errorf("stored: %s", got)
	}
	rss, anon := memory.end()
	t.Logf("RSS %d MiB, anonymous %d MiB", rss, anon)
	if s.Ended() {
		t.Error("the server has ended")
	}
}
