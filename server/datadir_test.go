package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/config"
	"tsdbd/inspect"
)

// directoryOf makes a directory with files of these names.
func directoryOf(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		path := filepath.Join(dir, filepath.FromSlash(n))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestDirectoriesOfOthers: no server starts in the directory of another program.
func TestDirectoriesOfOthers(t *testing.T) {
	f := func(want error, names ...string) {
		t.Helper()
		c := &config.Config{}
		c.Data.Dir = directoryOf(t, names...)
		if err := checkDir(c); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", names, err, want)
		}
	}
	f(nil)
	f(nil, "lost+found/x")
	f(ErrForeignDir, "passwd", "hosts")
	f(ErrForeignDir, "meta/x", "wal/x", "data/x")
	f(nil, "LOCK", "meta/catalog.1")
	f(nil, "LOCK") // of a server that failed
	f(nil, "LOCK", "cold-cache/x")
	f(ErrForeignDir, "LOCK", "important")
	f(nil, "cluster/node.0")
	f(errBackups, "LOCK", "objects/x.tsm", "20261129T100000.000Z.backup")
	f(inspect.ErrUnfinished, "LOCK", "RESTORE")
	f(inspect.ErrUnfinished, "LOCK", "RESTORE", "db-1/series/x")
	f(nil, "LOCK", "wal/x")
	f(nil, "meta/catalog.1", "db-1/series/x") // restored
	f(nil, "db-1/series/x")
	f(errInfluxData, "telegraf/_series/x")
	f(errInfluxData, "../meta/meta.db") // of an InfluxDB without databases
	f(errInfluxData, "meta/meta.db", "wal/x")
	file := &config.Config{}
	file.Data.Dir = filepath.Join(directoryOf(t, "x"), "x")
	if err := checkDir(file); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("a file: %v", err)
	}
	if !strings.Contains(errInfluxData.Error(), "tsdbd import influxdb") {
		t.Errorf("%v does not name the road", errInfluxData)
	}
}
