package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"tsdbd/internal/apptest"
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
			file := writeFile(t, c.lines)
			for _, server := range []string{s.URL, plain.URL} {
				if server == plain.URL && name == "time is left out" {
					continue // its answer does not say that the point is stored
				}
				for _, flags := range [][]string{nil, {"-failed", t.TempDir() + "/failed"}} {
					args := append([]string{"import", "-host", server, "-db", c.db}, flags...)
					out, errs, _ := tsdbd(t, append(args, file)...)
					if !strings.HasPrefix(out, c.want) {
						t.Errorf("import %v says %q, want %s\n%.300s", flags, out, c.want, errs)
					}
				}
			}
		})
	}
}
