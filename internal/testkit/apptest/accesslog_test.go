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
suppress-write-log = true
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
	lines(file, "path=/query query=\"\" status=400", 2)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	s.Reload("configuration reloaded")
	ask()
	lines(file, "path=/ping query=\"\" status=204", 2)
	lines(file+".1", "path=/ping query=\"\" status=204", 2)

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

// TestWriteTracing turns the tracing of writes on and off while the server runs.
func TestWriteTracing(t *testing.T) {
	t.Parallel()
	file := TempFile(t, "")
	s := Start(t, "-config", file)
	s.Query("", "CREATE DATABASE d")
	write := func(body string, traced bool) {
		t.Helper()
		s.Send("/write?db=d&rp=autogen&u=ann&p=sesame", body)
		if got := strings.Contains(s.Log(), body[:7]); got != traced {
			t.Errorf("%s is traced: %v", body[:7], got)
		}
	}
	configure := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Reload("changed=http.write-tracing at_restart=nothing")
	}
	write("first v=1", false)
	configure("[http]\nwrite-tracing = true\n")
	write("wrong line", true)
	write("second v=1\n"+strings.Repeat("#", 1<<20), true)
	s.Stop()
	for _, want := range []string{`level=INFO msg="write received" db=d rp=autogen request_id=`, `user="" bytes=10 body="wrong line"`, "bytes=1048587"} {
		if !strings.Contains(s.Log(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	if n := len(s.Log()); n > 80<<10 {
		t.Errorf("the log has %d bytes, a body is not cut", n)
	}
	if strings.Contains(s.Log(), "sesame") {
		t.Error("the log has the password")
	}
}
