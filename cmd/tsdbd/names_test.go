package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestNamesOfAnyBytes moves names with control characters and bytes that are not UTF-8 by
// every road from a server to a server, and wants them back equal.
func TestNamesOfAnyBytes(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE d")
	s.Write("d", strings.Join([]string{
		"a\x01b,t=1 v=1 1", "tab\there,k\tey=v\talue f\tield=2 2", "\xe4\xff,\xfe=\xfd \xfc=3,t=\"\xfb\" 3",
		"bell\x07,esc=\x1b[31m del\x7f=4i 4", "return\rhere,r=a\rb f\rg=5 5", "zero\x00byte,z=\x00 z\x00z=6 6", "é,ü=ö ß=7 7",
	}, "\n"))
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	points := func(of *apptest.Server) string {
		t.Helper()
		out := must(t, "export", "-host", of.URL, "-db", "d", "-lponly")
		return strings.Join(slices.Sorted(strings.Lines(out)), "")
	}
	want := points(s)
	if strings.Count(want, "\n") != 7 {
		t.Fatalf("the server has %q", want)
	}
	must(t, "export", "-host", s.URL, "-db", "d", "-out", file("lines"))
	must(t, "export", "-host", s.URL, "-db", "d", "-format", "csv", "-out", file("rows.csv"))
	must(t, "export", "-host", s.URL, "-db", "d", "-format", "parquet", "-out", file("parquet"))
	must(t, "backup", "-host", s.URL, file("backup"))
	for road, args := range map[string][]string{
		"lines":             {"import", file("lines")},
		"CSV":               {"import", file("rows.csv")},
		"a running server":  {"import", "-from", s.URL},
		"a backup's points": {"restore", file("backup")},
	} {
		to := apptest.Start(t)
		if out, errs, err := tsdbd(t, slices.Insert(args, 1, "-host", to.URL)...); err != nil {
			t.Errorf("%s: %q %q, %v", road, out, errs, err)
		}
		if got := points(to); got != want {
			t.Errorf("%s:\n got %q\nwant %q", road, got, want)
		}
		to.Stop()
	}
	must(t, "restore", "-data", file("restored"), file("backup"))
	if got := must(t, "export", "-data", file("restored"), "-db", "d", "-lponly"); strings.Join(slices.Sorted(strings.Lines(got)), "") != want {
		t.Errorf("a backup's files: %q", got)
	}
}
