package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsdbd/cluster/self"
	"tsdbd/config"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
)

// errInfluxData says that a directory is an InfluxDB's.
var errInfluxData = errors.New("there is the data of an InfluxDB: name an empty directory, and move the data with tsdbd import influxdb")

// ErrForeignDir says that a directory holds files of another program.
var ErrForeignDir = errors.New("the directory is not empty and is not a tsdbd data directory")

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
	if err != nil {
		return nil // the store creates the directory, or returns this error
	}
	if slices.ContainsFunc(entries, isForeign) && !holdsData(dir, entries) {
		return fmt.Errorf("data.dir %s: %w", c.DataPath(), ErrForeignDir)
	}
	return nil
}

// isForeign reports whether a server would not find an entry in a new directory.
func isForeign(e fs.DirEntry) bool { return e.Name() != "lost+found" }

// holdsData reports whether a server has used the directory, or a restore has
// filled it.
func holdsData(dir string, entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() == "LOCK" || e.Name() == self.Dir || strings.HasPrefix(e.Name(), "db-") {
			return true
		}
	}
	return slices.ContainsFunc(meta.CopyNames(), func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, "meta", name))
		return err == nil
	})
}
