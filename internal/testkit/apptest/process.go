package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Status reads a figure of /proc/PID/status in bytes, such as VmHWM or
// RssAnon; -1 if the process is gone.
func (s *Server) Status(field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return -1
			}
			return n << 10
		}
	}
	return -1
}

// Metric returns the value of a metric without labels; false if it is not
// there.
func (s *Server) Metric(name string) (float64, bool) {
	s.t.Helper()
	status, body, err := s.Do(context.Background(), http.MethodGet, "/metrics", nil, "")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("metrics: %d %v", status, err)
	}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				s.t.Fatalf("metric %s: %v", name, err)
			}
			return v, true
		}
	}
	return 0, false
}

// Health returns the status and text of /health.
func (s *Server) Health() (status int, text string) {
	s.t.Helper()
	status, text, err := s.Do(context.Background(), http.MethodGet, "/health", nil, "")
	if err != nil {
		s.t.Fatalf("health: %v", err)
	}
	return status, text
}

// Count returns the only number of the answer to a SELECT of one value; 0 for
// an empty answer.
func (s *Server) Count(db, q string, flags ...string) (int64, error) {
	form := url.Values{"db": {db}, "q": {q}}
	for _, name := range flags {
		form.Set(name, "true")
	}
	status, body, err := s.Do(context.Background(), http.MethodPost, "/query", form, "")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("query %q: %d %.300s %w", q, status, body, err)
	}
	var doc struct {
		Results []struct {
			Error  string
			Series []struct{ Values [][]any }
		}
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return 0, fmt.Errorf("query %q: %w", q, err)
	}
	if len(doc.Results) != 1 || doc.Results[0].Error != "" {
		return 0, fmt.Errorf("query %q: %.300s", q, body)
	}
	if len(doc.Results[0].Series) == 0 {
		return 0, nil
	}
	n, ok := doc.Results[0].Series[0].Values[0][1].(json.Number)
	if !ok {
		return 0, fmt.Errorf("query %q: %.300s", q, body)
	}
	return n.Int64()
}

// Refused checks that a refusal of a write makes every client keep its data
// and come back: 503, Retry-After in seconds, a JSON error, and none of the
// words by which clients throw a batch away.
func Refused(resp *http.Response, body string) error {
	if resp.StatusCode != http.StatusServiceUnavailable {
		return fmt.Errorf("status %d: %.300s", resp.StatusCode, body)
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || n < 1 {
		return fmt.Errorf("Retry-After %q: %.300s", resp.Header.Get("Retry-After"), body)
	}
	var doc struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Error == "" {
		return fmt.Errorf("body is no JSON error: %.300s", body)
	}
	for _, word := range []string{
		"partial write", "unable to parse", "retention policy not found", "points beyond retention policy",
		"hinted handoff queue not empty", "database not found", "field type conflict",
	} {
		if strings.Contains(strings.ToLower(doc.Error), word) {
			return fmt.Errorf("clients would drop the batch: %s", doc.Error)
		}
	}
	return nil
}

// Post sends lines to a database and returns true if they were stored, false
// if they were refused as Refused demands. An error is anything else.
func (s *Server) Post(ctx context.Context, db, lines string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/write?"+url.Values{"db": {db}}.Encode(), strings.NewReader(lines))
	if err != nil {
		return false, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	body, err := readAll(resp)
	if err != nil {
		return false, err
	}
	if resp.StatusCode == http.StatusNoContent {
		return true, nil
	}
	return false, Refused(resp, body)
}

// cutOff reports whether an error of Post says that the server has closed the connection before
// it had all of the body. A server that refuses a long body does not read it to its end, and a
// client that still sends may see that in place of the refusal.
func cutOff(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

func readAll(resp *http.Response) (string, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// peak follows a process's memory.
type peak struct {
	rss, anon atomic.Int64
	stop      chan struct{}
	done      chan struct{}
}

// watch samples the memory of the server every few milliseconds.
func watch(s *Server) *peak {
	p := &peak{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			p.rss.Store(max(p.rss.Load(), s.Status("VmRSS")))
			p.anon.Store(max(p.anon.Load(), s.Status("RssAnon")))
		}
	}()
	return p
}

// end stops the sampling and returns the peaks in MiB.
func (p *peak) end() (rss, anon int64) {
	close(p.stop)
	<-p.done
	return p.rss.Load() >> 20, p.anon.Load() >> 20
}

// needRoot skips a test that mounts or makes cgroups.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// tail returns the last lines of a log.
func tail(log string) string { return log[max(0, len(log)-4000):] }
