// Package layout says where databases and shards lie in a data directory, and whether
// a directory is the one that its name says.
package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/series"
	"tsdbd/shard/manifest"
)

// The beginnings of the names of directories; a number follows.
const (
	DatabasePrefix = "db-"
	ShardPrefix    = "shard-"
)

// Number returns the number in a name with a prefix.
func Number(name, prefix string) (uint64, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(rest, 10, 64)
	return id, err == nil
}

// Numbers returns the numbers of the names with a prefix.
func Numbers(names []string, prefix string) (ids []uint64) {
	for _, name := range names {
		if id, ok := Number(name, prefix); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// DatabaseDir and ShardDir return the place of a database and of a shard under
// a store's directory.
func DatabaseDir(database uint32) string {
	return fmt.Sprintf("%s%d", DatabasePrefix, database)
}

// ShardDir returns the place of a shard under a store's directory.
func ShardDir(database uint32, id uint64) string {
	return path.Join(DatabaseDir(database), fmt.Sprintf("%s%d", ShardPrefix, id))
}

// ErrForeignCatalog refuses to open a store with the catalog of another data
// directory.
var ErrForeignCatalog = errors.New("the catalog is that of another data directory: put the right one back, or move the directories away to go on without their data")

// CheckCatalog refuses a catalog that stands alone: database directories and the log
// name other data directories, and none the catalog's. names are those in the data
// directory dir, logs the lineages of the log's segments.
func CheckCatalog(fsys vfs.FS, dir string, names []string, lineage identity.Lineage, logs []identity.Lineage) error {
	if foreign := foreign(fsys, dir, names, lineage, logs); foreign != "" {
		return fmt.Errorf("open store: %s, the catalog to %s: %w", foreign, lineage, ErrForeignCatalog)
	}
	return nil
}

// foreign tells whose a directory is that contradicts the lineage, "" if none does, or
// one says that the lineage is right.
func foreign(fsys vfs.FS, dir string, names []string, lineage identity.Lineage, logs []identity.Lineage) (foreign string) {
	for _, l := range logs {
		if l == lineage {
			return ""
		}
		foreign = fmt.Sprintf("%s belongs to data directory %s", path.Join(dir, "wal"), l)
	}
	for _, name := range names {
		if _, ok := Number(name, DatabasePrefix); !ok {
			continue
		}
		owner, err := series.ReadOwner(fsys, path.Join(dir, name, "series"))
		if err != nil {
			continue // it says nothing, and opening it will tell
		}
		if owner.Lineage == lineage {
			return ""
		}
		if foreign == "" {
			foreign = fmt.Sprintf("%s belongs to data directory %s", path.Join(dir, name), owner.Lineage)
		}
	}
	return foreign
}

// NotOfDatabase returns an error when dir names another database or data
// directory. What of a half removed directory names none is nobody's.
func NotOfDatabase(fsys vfs.FS, dir string, want identity.Database) error {
	owner, err := series.ReadOwner(fsys, path.Join(dir, "series"))
	if binio.Damaged(err) {
		return nil
	}
	if err == nil && owner != want {
		err = identity.Foreignf(dir, "it belongs to %s, not to %s, which was dropped", owner, want)
	}
	return err
}

// NotOfShard returns an error when the manifest in dir names another shard or
// data directory.
func NotOfShard(fsys vfs.FS, dir string, lineage identity.Lineage, id uint64) error {
	m, err := manifest.Read(fsys, dir)
	if binio.Damaged(err) {
		return nil
	}
	if err == nil && (m.Lineage != lineage || m.Shard != id) {
		err = identity.Foreignf(dir, "it belongs to shard %d of %s, not to shard %d of %s, which was dropped", m.Shard, m.Lineage, id, lineage)
	}
	return err
}

// ErrFilesGone is the reason of a database whose directory is missing or empty.
var ErrFilesGone = errors.New("its files are gone")

// HasShards reports whether the directory of a database may have points.
func HasShards(fsys vfs.FS, dir string) bool {
	names, err := fsys.List(dir)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || len(Numbers(names, ShardPrefix)) > 0
}

// CheckFiles returns an ErrFilesGone when the directory of a database, some of
// whose shards had files, is missing or empty: a disk that is not mounted. New
// points must not go beside it.
func CheckFiles(fsys vfs.FS, dir, database string) error {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open database %s: %w", database, err)
	}
	if slices.ContainsFunc(names, func(n string) bool { return n == "series" || strings.HasPrefix(n, ShardPrefix) }) {
		return nil
	}
	return fmt.Errorf("%s is missing or empty: %w, put them back or drop the database", dir, ErrFilesGone)
}

// Refusable reports whether an error makes one database unusable, and not the
// store.
func Refusable(err error) bool {
	return errors.Is(err, identity.ErrForeign) || errors.Is(err, ErrFilesGone)
}
