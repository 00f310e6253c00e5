package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestImportCSV imports tables, names the rows that are refused by file and line, and
// keeps them so that they can be imported again.
func TestImportCSV(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE d")
	s.Write("d", "cpu,host=z n=1i 1767614400000000000\n") // n is an integer
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	failed := filepath.Join(dir, "failed.csv")
	one := file("one.csv", "time,host,usage,n\n2026-01-05T12:00:00Z,a,1.5,1\n2026-01-05T12:00:01Z,b,x,2\n2026-01-05T12:00:02Z,b,2.5,0.5\n2026-01-05T12:00:03Z,b,3.5,\n")
	out, errs, err := tsdbd(t, "import", "-host", s.URL, "-db", "d", "-measurement", "cpu", "-columns", "time,host:tag,usage:float,n:float", "-failed", failed, one)
	// The server refuses the floats of n, import the usage x.
	if err == nil || !strings.HasPrefix(out, "4 points processed, 1 written, 3 refused") {
		t.Errorf("import says %q, %v\n%s", out, err, errs)
	}
	for _, want := range []string{
		one + ":3: column usage: \"x\" is not a number\n",
		one + ":2: partial write: field type conflict: input field \"n\" on measurement \"cpu\" is type float, already exists as type integer",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("errors\n%slack %s", errs, want)
		}
	}
	text, err := os.ReadFile(failed)
	const kept = "time,host,usage,n\n2026-01-05T12:00:01Z,b,x,2\n2026-01-05T12:00:00Z,a,1.5,1\n2026-01-05T12:00:02Z,b,2.5,0.5\n"
	if err != nil || string(text) != kept {
		t.Errorf("refused rows %q, %v", text, err)
	}
	again := file("again.csv", strings.NewReplacer(",x,", ",7.5,", "0.5", "5").Replace(string(text)))
	out, errs, err = tsdbd(t, "import", "-host", s.URL, "-db", "d", "-measurement", "cpu", again)
	if err != nil || !strings.HasPrefix(out, "3 points processed, 3 written, 0 refused") ||
		!strings.Contains(errs, again+": guessed from the first 3 rows: -columns 'time:time,host:tag,usage:float,n:integer'") {
		t.Errorf("import of the refused rows says %q, %v\n%s", out, err, errs)
	}

	// What query writes can be read, also when it is gzipped, and gives the same answer.
	const q = "SELECT usage, n FROM cpu WHERE time > '2026-01-01T00:00:00Z' GROUP BY host"
	table, _, err := tsdbd(t, "query", "-host", s.URL, "-db", "d", "-format", "csv", q)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "answer.csv.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte(table)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s.Query("", "CREATE DATABASE copy")
	if out, errs, err := tsdbd(t, "import", "-host", s.URL, "-db", "copy", path); err != nil || !strings.HasPrefix(out, "5 points processed, 5 written") {
		t.Errorf("import of an answer says %q, %v\n%s", out, err, errs)
	}
	if a, b := s.Query("d", q), s.Query("copy", q); a != b || !strings.Contains(a, "7.5") {
		t.Errorf("the copy answers\n%s, want\n%s", b, a)
	}

	for _, c := range []struct {
		want string
		args []string
	}{
		{"-format is line, csv, vm or mongo, not \"json\"", []string{"-format", "json", one}},
		{"column \"a\" has the type \"b\"", []string{"-columns", "a:b", one}},
		{"-failed takes lines, rows of CSV or documents", []string{"-failed", failed, one, apptest.TempFile(t, "m v=1 1\n")}},
		{one + ": line 1: no column has the measurement", []string{one}},
	} {
		if _, _, err := tsdbd(t, append([]string{"import", "-host", s.URL, "-db", "d"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}
