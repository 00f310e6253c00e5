package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/inspect"
)

// TestDirectoriesOfOthers: nothing starts in the directory of another program,
// and nothing calls it sound.
func TestDirectoriesOfOthers(t *testing.T) {
	dirOf := func(names ...string) string {
		dir := filepath.Join(t.TempDir(), "data")
		for _, n := range append(names, ".") {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(n)), 0o700); err != nil {
				t.Fatal(err)
			}
			if filepath.Base(n) == n && n == "." {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for name, c := range map[string]struct {
		dir   string
		serve error // of a start
		read  error // of verify, export, and inspect
	}{
		"empty":                    {dirOf(), nil, inspect.ErrNoData},
		"root of a file system":    {dirOf("lost+found/x"), nil, inspect.ErrNoData},
		"another program's":        {dirOf("passwd", "hosts"), errForeignDir, inspect.ErrNoData},
		"meta and wal of another":  {dirOf("meta/x", "wal/x", "data/x"), errForeignDir, inspect.ErrNoData},
		"of a server":              {dirOf("LOCK", "meta/catalog.1"), nil, nil},
		"of a server that failed":  {dirOf("LOCK"), nil, inspect.ErrNoData},
		"of a server without data": {dirOf("LOCK", "wal/x"), nil, nil},
		"restored":                 {dirOf("meta/catalog.1", "db-1/series/x"), nil, nil},
		"databases, no catalog":    {dirOf("db-1/series/x"), nil, nil},
		"InfluxDB":                 {dirOf("telegraf/_series/x"), errInfluxData, inspect.ErrNoData},
		"InfluxDB, no database":    {dirOf("../meta/meta.db"), errInfluxData, inspect.ErrNoData},
		"InfluxDB, one level high": {dirOf("meta/meta.db", "wal/x"), errInfluxData, inspect.ErrNoData},
	} {
		config := &config{}
		config.Data.Dir = c.dir
		if err := config.checkDir(); !errors.Is(err, c.serve) {
			t.Errorf("%s: a start says %v", name, err)
		}
		for _, args := range [][]string{{"verify", c.dir}, {"export", "-data", c.dir, "-out", filepath.Join(t.TempDir(), "out")}} {
			_, _, err := tsdbd(t, args...)
			if c.read != nil && !errors.Is(err, c.read) || c.read == nil && errors.Is(err, inspect.ErrNoData) {
				t.Errorf("%s: tsdbd %s says %v", name, args[0], err)
			}
			if c.read != nil && !strings.Contains(advice(err), "-backup") {
				t.Errorf("%s: the advice is %q", name, advice(err))
			}
		}
	}
	dir := dirOf("passwd")
	if text := refusal(t, "-data", dir); !strings.Contains(text, "not empty and holds no data of tsdbd") || !strings.Contains(text, "hint: name a new or empty directory") {
		t.Errorf("said %s", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("after the refusal: %v %v", entries, err)
	}
}
