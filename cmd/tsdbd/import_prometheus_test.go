package main

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestImportPrometheus moves blocks into a server, which answers PromQL over them.
func TestImportPrometheus(t *testing.T) {
	s := apptest.Start(t)
	dir := filepath.Join("..", "..", "transfer", "source", "prometheus", "testdata", "blocks")
	out := must(t, "import", "prometheus", "-dry-run", dir)
	if !strings.Contains(out, "2026-01-05T12:00:00Z") || !strings.Contains(out, "2 blocks, 8 samples, ") {
		t.Errorf("dry run\n%s", out)
	}
	for range 2 {
		out = must(t, "import", "prometheus", "-host", s.URL, dir)
		if out != "8 samples read, 8 written, 0 refused, 0 written before\n2 metrics with 7 values are equal in source and server\n" {
			t.Errorf("import says\n%s", out)
		}
	}
	_, answer, err := s.Do(t.Context(), "GET", "/api/v1/query", url.Values{"query": {"sum(up)"}, "time": {"1767614461"}}, "")
	if err != nil || !strings.Contains(answer, `"value":[1767614461,"1"]`) {
		t.Errorf("answer %s, %v", answer, err)
	}

	// tsdbd answers remote read as Prometheus does, over more than one day.
	s.Query("", "CREATE DATABASE copy")
	out = must(t, "import", "prometheus", "-host", s.URL, "-db", "copy", "-start", "2026-01-05", "-end", "2026-01-07", s.URL+"/prometheus/prometheus")
	if out != "8 samples read, 8 written, 0 refused, 0 written before\n2 metrics with 7 values are equal in source and server\n" {
		t.Errorf("import from a server says\n%s", out)
	}
	out = must(t, "import", "prometheus", "-host", s.URL, "-db", "part", "-start", "2026-01-05", "-match", `up{instance="a:9100"}`, s.URL+"/prometheus/prometheus")
	if !strings.HasPrefix(out, "3 samples read, 3 written") {
		t.Errorf("import of a series from a server says\n%s", out)
	}

	// What the server has more of is named.
	s.Write("prometheus", "up,__name__=up,instance=c value=5 1767614400000000000")
	out = must(t, "import", "prometheus", "-host", s.URL, "-match", "up", dir)
	if !strings.Contains(out, "5 samples read") || !strings.Contains(out, `field "value" of "up" of prometheus.autogen: count 4 in source, 5 in server`) {
		t.Errorf("import says\n%s", out)
	}

	for want, args := range map[string][]string{
		"takes one directory or URL":   {},
		"-start says where the past":   {"http://127.0.0.1:1"},
		"no block of Prometheus":       {t.TempDir()},
		"-match {: ":                   {"-match", "{", dir},
		"no block has samples between": {"-start", "2026-02-01", dir},
	} {
		if _, _, err := tsdbd(t, append([]string{"import", "prometheus", "-host", s.URL}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
