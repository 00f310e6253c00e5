package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/apptest"
)

// TestImportCountsWhatIsRefused: the counts are those of the points, with and
// without -failed, from a server that says how many lines it dropped and from
// one that does not.
func TestImportCountsWhatIsRefused(t *testing.T) {
	s := apptest.Start(t)
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error { r.Header.Del("X-Tsdbd-Dropped"); return nil }
	plain := httptest.NewServer(proxy) // as InfluxDB answers
	defer plain.Close()
	s.Query("", "CREATE DATABASE cnt")
	s.Query("", "CREATE DATABASE shrt WITH DURATION 1d")
	s.Write("cnt", "m v=1 1")
	var many strings.Builder
	many.WriteString("m v=1 10\n")
	for i := range 1300 {
		fmt.Fprintf(&many, "bad%d one two\n", i)
	}
	many.WriteString("m v=2 11\n")
	for name, c := range map[string]struct{ db, lines, want string }{
		"a conflict hides lines": {"cnt", "m v=2 2\nbad one\nbad two\nbad three\nm v=\"s\" 3\n", "5 points processed, 1 written, 4 refused"},
		"more than are quoted":   {"cnt", many.String(), "1302 points processed, 2 written, 1300 refused"},
		"too old":                {"shrt", "m v=1 10\nm v=2\nbad x y\n", "3 points processed, 1 written, 2 refused"},
		"all refused":            {"cnt", "m v=\"s\" 1\nm v=\"s\" 2\nbad\n", "3 points processed, 0 written, 3 refused"},
		"time is left out":       {"cnt", "m v=1,time=2 77\nm v=1 78\n", "2 points processed, 2 written, 0 refused"},
	} {
		t.Run(name, func(t *testing.T) {
			file := apptest.TempFile(t, c.lines)
			for _, process := range []string{s.URL, plain.URL} {
				if process == plain.URL && name == "time is left out" {
					continue // its answer does not say that the point is stored
				}
				for _, flags := range [][]string{nil, {"-failed", t.TempDir() + "/failed"}} {
					args := append([]string{"import", "-host", process, "-db", c.db}, flags...)
					out, errs, _ := tsdbd(t, append(args, file)...)
					if !strings.HasPrefix(out, c.want) {
						t.Errorf("import %v says %q, want %s\n%.300s", flags, out, c.want, errs)
					}
				}
			}
		})
	}
}

// TestImportFiles: files come one after the other, and the headers of one do not
// hold for the next.
func TestImportFiles(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE a")
	s.Query("", "CREATE DATABASE b")
	one, two := apptest.TempFile(t, "# DML\n# CONTEXT-DATABASE:b\nm v=1 1\nbad\n"), apptest.TempFile(t, "m v=2 2\nm v=3 3\nbad\n")
	failed := t.TempDir() + "/failed"
	out, _, err := tsdbd(t, "import", "-host", s.URL, "-db", "a", "-failed", failed, one, two)
	if err == nil || !strings.HasPrefix(out, "5 points processed, 3 written, 2 refused") {
		t.Errorf("import says %q, %v", out, err)
	}
	if a, b := s.Query("a", "SELECT v FROM m"), s.Query("b", "SELECT v FROM m"); !strings.Contains(a, "[[2,2],[3,3]]") || !strings.Contains(b, "[[1,1]]") {
		t.Errorf("database a: %s, b: %s", a, b)
	}
	text, err := os.ReadFile(failed)
	if want := "# CONTEXT-DATABASE:b\n# CONTEXT-RETENTION-POLICY:\nbad\n# CONTEXT-DATABASE:a\n# CONTEXT-RETENTION-POLICY:\nbad\n"; err != nil || string(text) != want {
		t.Errorf("failed lines %q, %v", text, err)
	}
	if _, _, err := tsdbd(t, "import", "-host", s.URL, "-db", "a", "-failed", failed, one, failed); err == nil || !strings.Contains(err.Error(), "is a file that is imported") {
		t.Errorf("import of the file of refused lines: %v", err)
	}
	if still, err := os.ReadFile(failed); err != nil || string(still) != string(text) {
		t.Errorf("the file of refused lines has become %q, %v", still, err)
	}
	if _, err := os.Stat("/dev/full"); err == nil { // what was refused must not be lost in silence
		if _, _, err := tsdbd(t, "import", "-host", s.URL, "-db", "a", "-failed", "/dev/full", one); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("import with a full disk: %v", err)
		}
	}
	if _, _, err := tsdbd(t, "import", "-host", s.URL, "-db", "a", one, t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("import of a directory: %v", err)
	}
	// What is no text does not reach a terminal as it is.
	_, errs, _ := tsdbd(t, "import", "-host", s.URL, "-db", "a", apptest.TempFile(t, "\x1b[2J\x9b\x00 bad é\n"))
	if !strings.Contains(errs, `\x1b[2J`) || strings.ContainsAny(errs, "\x1b\x00") || !strings.Contains(errs, "é") {
		t.Errorf("errors: %q", errs)
	}
}

// TestImportOfAnotherServer: a web page is told in a line.
func TestImportOfAnotherServer(t *testing.T) {
	for _, status := range []int{200, 404} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>\n<title>Welcome</title>\n</html>\n")
		}))
		defer web.Close()
		for _, args := range [][]string{{"import", "-db", "d", apptest.TempFile(t, "m v=1\n")}, {"export"}} {
			out, errs, err := tsdbd(t, append(args, "-host", web.URL)...)
			if err == nil || !strings.Contains(err.Error(), "a web page, no answer of tsdbd or InfluxDB") || strings.Contains(out+errs+err.Error(), "\n") {
				t.Errorf("%s of status %d: %q %q %v", args[0], status, out, errs, err)
			}
		}
	}
}

// TestImportEndsByOneSignal: also while it waits for standard input.
func TestImportEndsByOneSignal(t *testing.T) {
	asked := make(chan bool, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		asked <- true
	}))
	defer web.Close()
	cmd := exec.Command(apptest.Binary(t), "import", "-host", web.URL, "-db", "d")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	proc.Prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	<-asked
	if err := proc.Stop(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		done, total, points int64
		took                time.Duration
		want                string
	}{
		{0, 0, 5, 0, ""},
		{25, 100, 5, time.Millisecond, " 25.0%  "},
		{25, 100, 5000, 10 * time.Second, " 25.0%  500/s  30s left  "},
		{25, 0, 5000, 10 * time.Second, "500/s  "},
		{0, 100, 0, 10 * time.Second, "  0.0%  0/s  "},
		{100, 100, 5000, 10 * time.Second, "100.0%  500/s  0s left  "},
	} {
		if got := pace(c.done, c.total, c.points, c.took); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
