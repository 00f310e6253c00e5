package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"tsdbd/backup"
	"tsdbd/cluster/self"
	"tsdbd/config"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
)

// errInfluxData says that a directory is an InfluxDB's.
var errInfluxData = errors.New("there is the data of an InfluxDB: name an empty directory, and move the data with tsdbd import influxdb")

// ErrForeignDir says that a directory holds files of another program.
var ErrForeignDir = errors.New("the directory is not empty and is not a tsdbd data directory")

// errBackups says that a directory is one of backups.
var errBackups = errors.New("there are backups: name an empty directory, and bring one back with tsdbd restore -data")

// CheckDir returns why a server that is alone would not open a data directory: another
// program uses it, or it belongs to a node of a cluster. It writes nothing.
func CheckDir(dir string) error {
	c := config.Default()
	c.Data.Dir = dir
	return cmp.Or(checkDir(c), self.CheckSingle(vfs.OS, dir))
}

// checkDir refuses a directory that another program uses, which an influxdb.conf
// or a slip of the pen may name. It writes nothing.
func checkDir(c *config.Config) error {
	dir := c.Data.Dir
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return fmt.Errorf("data.dir %s is a file", c.DataPath())
	}
	for _, pattern := range []string{"*/_series", "_internal", "meta.db", "meta/meta.db"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err == nil && len(found) > 0 {
			return fmt.Errorf("data.dir %s: %w", c.DataPath(), errInfluxData)
		}
	}
	if filepath.Base(filepath.Clean(dir)) == "data" { // of an InfluxDB without databases it is empty
		if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Clean(dir)), "meta", "meta.db")); err == nil {
			return fmt.Errorf("data.dir %s: %w", c.DataPath(), errInfluxData)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(entries, isForeign) {
		return nil // without a directory the store makes it, or returns this error
	}
	err = inspect.CheckData(vfs.OS, filepath.ToSlash(dir))
	switch {
	case errors.Is(err, inspect.ErrUnfinished):
		return fmt.Errorf("data.dir %w", err)
	case !errors.Is(err, inspect.ErrNoData):
		return nil // there is data, or the store returns this error
	case slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == self.Dir }):
		return nil // of a node that has not got its data yet
	case slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return path.Ext(e.Name()) == backup.ManifestSuffix }):
		return fmt.Errorf("data.dir %s: %w", c.DataPath(), errBackups)
	}
	return fmt.Errorf("data.dir %s: %w", c.DataPath(), ErrForeignDir)
}

// isForeign reports whether neither a new file system nor a first start that failed early leaves
// an entry.
func isForeign(e fs.DirEntry) bool {
	return !slices.Contains([]string{"lost+found", "LOCK", "cold-cache"}, e.Name())
}
