package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/inspect"
	"tsdbd/internal/testkit/apptest"
)

// TestForeignDirectories: no command calls the directory of another program
// sound, and no server starts in it.
func TestForeignDirectories(t *testing.T) {
	f := func(data bool, names ...string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "data")
		for _, n := range names {
			path := filepath.Join(dir, filepath.FromSlash(n))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"verify", dir}, {"export", "-data", dir, "-out", filepath.Join(t.TempDir(), "out")}} {
			out, _, err := tsdbd(t, args...)
			if errors.Is(err, inspect.ErrNoData) == data {
				t.Errorf("%q: tsdbd %s says %v", names, args[0], err)
			}
			if args[0] == "verify" && strings.Contains(out, dir+": FOREIGN\n") == data {
				t.Errorf("%q: tsdbd verify prints %s", names, out)
			}
			if !data && !strings.Contains(advice(err), "-backup") {
				t.Errorf("%q: the advice is %q", names, advice(err))
			}
		}
	}
	f(false, "lost+found/x")
	f(false, "passwd", "hosts")
	f(false, "meta/x", "wal/x", "data/x")
	f(true, "LOCK", "meta/catalog.1")
	f(false, "LOCK")
	f(true, "LOCK", "wal/x")
	f(true, "meta/catalog.1", "db-1/series/x")
	f(true, "db-1/series/x")
	f(false, "telegraf/_series/x")
	f(false, "meta/meta.db", "wal/x")

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := tsdbd(t, "verify", filepath.Join(dir, "passwd")); !errors.Is(err, inspect.ErrNoData) || !strings.Contains(out, ": FOREIGN\n") {
		t.Errorf("verify of a file: %s %v", out, err)
	}
	if text := apptest.Refusal(t, "-data", dir); !strings.Contains(text, "not empty and is not a tsdbd data directory") || !strings.Contains(text, "hint: name a new or empty directory") {
		t.Errorf("said %s", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("after the refusal: %v %v", entries, err)
	}
}

// TestOutIsWhole has commands fail that write to a file: what was in it stays.
func TestOutIsWhole(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"export"}, {"export", "-format", "csv", "-db", "d"}, {"query", "SHOW DATABASES"}} {
		name := filepath.Join(dir, "out")
		if err := os.WriteFile(name, []byte("good"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := tsdbd(t, slices.Insert(args, 1, "-host", "http://127.0.0.1:1", "-out", name)...)
		b, rerr := os.ReadFile(name)
		if err == nil || rerr != nil || string(b) != "good" {
			t.Errorf("%q: %v; the file has %q, %v", args, err, b, rerr)
		}
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}
