package apptest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// probeLimit is how long a probe may take: a machine may stand still for
// seconds, a server that waits for a bad client does for ever.
const probeLimit = time.Minute

// probe writes a point and reads it back, again and again until ctx ends, and
// reports what took longer than probeLimit or failed.
func probe(ctx context.Context, s *Server, db string) error {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
		begin := time.Now()
		for {
			stored, err := s.Post(ctx, db, fmt.Sprintf("probe v=%di 1", n))
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("probe write %d: %w", n, err)
			}
			if stored {
				break
			}
			if time.Since(begin) > probeLimit {
				return fmt.Errorf("probe write %d is refused for %v", n, time.Since(begin))
			}
			time.Sleep(20 * time.Millisecond)
		}
		got, err := s.Count(db, "SELECT last(v) FROM probe")
		if err != nil {
			return fmt.Errorf("probe read %d: %w", n, err)
		}
		if got != int64(n) {
			return fmt.Errorf("probe %d reads %d", n, got)
		}
		if took := time.Since(begin); took > probeLimit {
			return fmt.Errorf("probe %d took %v", n, took)
		}
	}
}

// TestBadClients runs clients that are slow, broken or hostile against one
// server, while a probe must be answered all the time.
func TestBadClients(t *testing.T) {
	t.Parallel()
	const limit = 1 << 30
	s := New(t)
	s.Env = []string{"GOMEMLIMIT=" + strconv.Itoa(limit)}
	s.Restart()
	s.Query("", "CREATE DATABASE db")
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "m,h=h%d v=%d %d\n", i%100, i, int64(i)*1_000_000_000)
	}
	s.Write("db", b.String())
	ctx, cancel := context.WithCancel(context.Background())
	memory := watch(s)
	probed := make(chan error, 1)
	go func() { probed <- probe(ctx, s, "db") }()
	t.Run("together", func(t *testing.T) {
		t.Run("HalfHeaders", func(t *testing.T) { t.Parallel(); halfHeaders(t, s) })
		t.Run("NoReading", func(t *testing.T) { t.Parallel(); noReading(t, s) })
		t.Run("Bombs", func(t *testing.T) { t.Parallel(); bombs(t, s) })
		t.Run("ManyQueries", func(t *testing.T) { t.Parallel(); manyQueries(t, s) })
		t.Run("Statements", func(t *testing.T) { t.Parallel(); statements(t, s) })
	})
	cancel()
	if err := <-probed; err != nil {
		t.Error(err)
	}
	rss, anon := memory.end()
	t.Logf("RSS %d MiB, anonymous %d MiB", rss, anon)
	if anon > limit>>20*5/4 {
		t.Errorf("anonymous memory reached %d MiB", anon)
	}
	s.Stop()
	if log := s.Log(); strings.Contains(log, "panic") {
		t.Errorf("a panic in the log:\n%s", tail(log))
	}
}

// halfHeaders opens connections and never ends the header.
func halfHeaders(t *testing.T, s *Server) {
	if testing.Short() {
		t.Skip("takes ten seconds; not with -short")
	}
	addr := strings.TrimPrefix(s.URL, "http://")
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			begin := time.Now()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := io.WriteString(c, "POST /write?db=db HTTP/1.1\r\nHost: x\r\nContent-Le"); err != nil {
				t.Error(err)
				return
			}
			if err := c.SetReadDeadline(begin.Add(2 * time.Minute)); err != nil {
				t.Error(err)
			}
			_, err = io.Copy(io.Discard, c)
			var timeout net.Error
			if took := time.Since(begin); errors.As(err, &timeout) && timeout.Timeout() || took < 5*time.Second {
				t.Errorf("cut after %v, %v", took, err)
			}
		})
	}
	wg.Wait()
}

// noReading asks for much and reads nothing; when the connections are gone so
// are their queries.
func noReading(t *testing.T, s *Server) {
	addr := strings.TrimPrefix(s.URL, "http://")
	var conns []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "GET /query?db=db&chunked=true&q=%s HTTP/1.1\r\nHost: x\r\n\r\n", url.QueryEscape("SELECT * FROM m -- unread")); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	time.Sleep(time.Second)
	for _, c := range conns {
		_ = c.Close()
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, body, err := s.Do(context.Background(), http.MethodGet, "/query", url.Values{"q": {"SHOW QUERIES"}}, "")
		if err != nil || status != http.StatusOK {
			t.Fatalf("SHOW QUERIES: %d %v", status, err)
		}
		left := strings.Count(body, "SELECT * FROM")
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d queries of clients that are gone still run", left)
			return
		}
	}
}

// bombs sends a mebibyte that decompresses to a gibibyte, eight times at once. One that is
// asked to come back, because the others hold the memory of bodies, does.
func bombs(t *testing.T, s *Server) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	line := bytes.Repeat([]byte("m,h=bomb v=1 1\n"), 1<<16)
	for n := 0; n < 1<<30; n += len(line) {
		if _, err := z.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for again := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
				status, answer, err := sendGzip(s, bomb.Bytes())
				if err == nil && status == http.StatusServiceUnavailable && time.Now().Before(again) {
					continue
				}
				if err != nil || status != http.StatusRequestEntityTooLarge {
					t.Errorf("status %d, %.200s, %v", status, answer, err)
				}
				return
			}
		})
	}
	wg.Wait()
	if n, err := s.Count("db", "SELECT count(v) FROM m WHERE h = 'bomb'"); err != nil || n != 0 {
		t.Errorf("%d points of a refused body, %v", n, err)
	}
	t.Logf("%d bytes decompress to %d", bomb.Len(), 1<<30)
}

// sendGzip writes a compressed body.
func sendGzip(s *Server, compressed []byte) (status int, answer string, err error) {
	req, err := http.NewRequest(http.MethodPost, s.URL+"/write?db=db", bytes.NewReader(compressed))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	answer, err = readAll(resp)
	return resp.StatusCode, answer, err
}

// manyQueries asks a thousand at a time.
func manyQueries(t *testing.T, s *Server) {
	var wg sync.WaitGroup
	var bad atomic.Int64
	begin := time.Now()
	for i := range 1000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			q := fmt.Sprintf("SELECT mean(v) FROM m WHERE h = 'h%d' AND time >= 0 AND time < 200000s GROUP BY time(1h)", i%100)
			status, body, err := s.Do(ctx, http.MethodGet, "/query", url.Values{"db": {"db"}, "q": {q}}, "")
			if err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable || strings.Contains(body, "error") && status == http.StatusOK {
				if bad.Add(1) == 1 {
					t.Errorf("%d %.300s %v", status, body, err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("1000 queries in %v, %d wrong", time.Since(begin).Round(time.Millisecond), bad.Load())
}

// statements sends queries that are cheap to write and dear to answer. Each
// must end, one way or other, within the time.
func statements(t *testing.T, s *Server) {
	regex := strings.Repeat("(a|b|[c-e]+)", (64<<10)/12)
	for name, q := range map[string]string{
		"regex of 64 KiB":      "SELECT v FROM m WHERE h =~ /" + regex + "/",
		"nested repetitions":   "SELECT v FROM m WHERE h =~ /((((h*)*)*)*)*[0-9]{1,900}$/",
		"deep parentheses":     "SELECT v FROM m WHERE " + strings.Repeat("(", 9_000) + "v > 1" + strings.Repeat(")", 9_000) + " LIMIT 1",
		"deeper parentheses":   "SELECT v FROM m WHERE " + strings.Repeat("(", 400_000) + "v > 1" + strings.Repeat(")", 400_000),
		"deep subqueries":      strings.Repeat("SELECT v FROM (", 2_000) + "SELECT v FROM m" + strings.Repeat(")", 2_000),
		"many terms":           "SELECT v FROM m WHERE v = 1" + strings.Repeat(" OR v = 2", 20_000),
		"windows of a ns":      "SELECT mean(v) FROM m WHERE time >= 0 AND time < 200000s GROUP BY time(1ns) LIMIT 1",
		"windows, filled":      "SELECT mean(v) FROM m WHERE time >= 0 AND time < 200000s GROUP BY time(1ns) fill(0) LIMIT 1",
		"windows by series":    "SELECT mean(v) FROM m WHERE time >= 0 AND time < 200000s GROUP BY time(1ns), * fill(previous) LIMIT 1",
		"windows of all time":  "SELECT count(v) FROM m WHERE time >= -9223372036854775806 AND time <= 9223372036854775806 GROUP BY time(1s) fill(0) LIMIT 3",
		"windows, no limit":    "SELECT count(v) FROM m WHERE time >= -9223372036854775806 AND time <= 9223372036854775806 GROUP BY time(1ms) fill(none)",
		"endless filled":       "SELECT count(v) FROM m WHERE time >= -9223372036854775806 AND time <= 9223372036854775806 GROUP BY time(1ms) fill(0)",
		"many statements":      strings.Repeat("SHOW DATABASES;", 2_000),
		"offset without end":   "SELECT v FROM m LIMIT 1 OFFSET 9223372036854775807",
		"measurements by name": "SELECT * FROM /" + strings.Repeat(".?", 400) + strings.Repeat("m", 400) + "/",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			begin := time.Now()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/query?db=db", strings.NewReader(url.Values{"q": {q}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			resp, err := s.http.Do(req)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			defer resp.Body.Close()
			start, _ := bufio.NewReader(io.LimitReader(resp.Body, 200)).ReadString('\n')
			if name != "endless filled" {
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			}
			if resp.StatusCode >= 500 {
				t.Errorf("status %d: %s", resp.StatusCode, start)
			}
			t.Logf("%d after %v: %.120s", resp.StatusCode, time.Since(begin).Round(time.Millisecond), start)
		})
	}
}
