package apptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAccessLogFile: the lines go to a file of their own, those that are wanted,
// and to a new one after SIGHUP.
func TestAccessLogFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "access.log")
	config := TempFile(t, `
[http]
access-log = true
access-log-path = "`+file+`"
access-log-status-filters = ["204", "4xx"]
suppress-write-log = true # has no effect
[http.headers]
X-Frame-Options = "DENY"
x-influxdb-version = "9"
`)
	s := StartOn(t, filepath.Join(dir, "data"), "-config", config)
	ask := func() {
		s.Query("", "CREATE DATABASE d")
		s.Send("/write?db=d", "m v=1")
		s.Send("/write?db=nosuch", "m v=1")
		for _, path := range []string{"/ping", "/query", "/health"} {
			_, _ = s.as('n', "GET", path, nil)
		}
	}
	ask()
	// A line is written after its answer.
	lines := func(name, last string, want int) {
		t.Helper()
		var text []byte
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
			var err error
			if text, err = os.ReadFile(name); err == nil && strings.Count(string(text), "\n") >= want {
				break
			}
		}
		if n := strings.Count(string(text), "\n"); n != want || !strings.Contains(string(text), last) {
			t.Errorf("%s has %d lines, want %d and %s:\n%s", name, n, want, last, text)
		}
	}
	lines(file, "path=/query query=\"\" status=400", 4)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	s.Reload("configuration reloaded")
	ask()
	lines(file, "path=/ping query=\"\" status=204", 4)
	lines(file+".1", "path=/ping query=\"\" status=204", 4)

	resp, err := s.http.Get(s.URL + "/nosuch")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if h := resp.Header; h.Get("X-Frame-Options") != "DENY" || !strings.HasPrefix(h.Get("X-Influxdb-Version"), "1.") {
		t.Error(h)
	}
	s.Stop()
	if strings.Contains(s.Log(), "msg=request") {
		t.Error("lines are in the log as well: ", s.Log())
	}
}
