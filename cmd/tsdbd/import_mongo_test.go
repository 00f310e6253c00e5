package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestImportMongo imports what mongoexport writes: documents that fit, and documents that
// the program or the server refuses, which are kept and imported once they are corrected.
func TestImportMongo(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE demo")
	sample := "../../transfer/source/mongo/testdata/relaxed.json"
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, failed := filepath.Join(dir, "weather.json"), filepath.Join(dir, "failed.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Write("demo", "weather hum=1.5 1620000000000000001") // so that the server refuses integers of hum
	args := []string{"import", "-host", s.URL, "-db", "demo", "-format", "mongo", "-time", "ts", "-meta", "sensor"}
	out, errs, err := tsdbd(t, append(args, "-failed", failed, file)...)
	if err == nil || !strings.Contains(out, "8 points processed, 3 written, 5 refused") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	for _, want := range []string{
		"weather.json: types from the first 8 documents: -columns 'device:string,hum:integer,",
		"integers and doubles are mixed, all become floats: temp\n",
		`weather.json:6: when: the type $timestamp has no counterpart`,
		"field type conflict",
	} {
		if !strings.Contains(out+errs, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	kept, err := os.ReadFile(failed)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(kept)) {
		if !strings.Contains(string(text), line) {
			t.Errorf("%s was not in the input", line)
		}
	}
	if n := strings.Count(string(kept), "\n"); n != 5 {
		t.Errorf("%d documents are kept\n%s", n, kept)
	}
	corrected := strings.ReplaceAll(string(kept), `"yesterday"`, `{"$date":"2021-05-03T00:00:07Z"}`)
	if err := os.WriteFile(failed, []byte(corrected), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err = tsdbd(t, append(args, "-measurement", "weather", "-columns", "hum:float,when:skip,price:skip,note", failed)...)
	if err == nil || !strings.Contains(out, "5 points processed, 3 written, 2 refused") || !strings.Contains(out+errs, "the document has no field") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	if got := s.Query("demo", "SELECT count(temp), sum(hum) FROM weather"); !strings.Contains(got, `4,82.5]]`) {
		t.Error(got)
	}
	if got := s.Query("demo", "SELECT n, note FROM weather WHERE \"site.city\" = 'Oslo, \"north\"'"); !strings.Contains(got, `9223372036854775807,"line\nbreak é"`) {
		t.Error(got)
	}

	for _, c := range [][]string{
		{"documents need the name of the member with the time: -time NAME", "-format", "mongo", file},
		{"documents from standard input need a measurement: -measurement NAME", "-format", "mongo", "-time", "ts", "-"},
		{`the field "x" cannot have the type time`, "-format", "mongo", "-time", "ts", "-columns", "x:time", file},
		{"-time, -meta and -points are for -format mongo", "-time", "ts", file},
		{"-format is line, csv, vm or mongo", "-format", "bson", file},
	} {
		_, errs, err := tsdbd(t, append([]string{"import", "-host", s.URL, "-db", "demo"}, c[1:]...)...)
		if err == nil || !strings.Contains(errs+err.Error(), c[0]) {
			t.Errorf("%q: %v\n%s", c[1:], err, errs)
		}
	}
}
