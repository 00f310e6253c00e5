package layout

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
)

// ErrOlderCatalog refuses to open a store with data that came after its catalog.
var ErrOlderCatalog = errors.New("the catalog is older than this directory: put the newer catalog back, or move the directory away to go on without its data")

// olderCatalog refuses data that the catalog has never named: it was not
// dropped, and removing it, or giving its number again, would lose it.
func olderCatalog(dir string) error {
	return fmt.Errorf("open store: %s: %w", dir, ErrOlderCatalog)
}

// Clearance deals with directories that the catalog does not name, when a store is
// opened.
type Clearance struct {
	FS      vfs.FS
	Dir     string // of the store
	Catalog *meta.Data
	// Later says that the log is yet to bring changes of the catalog: what it does not
	// know yet stays.
	Later  bool
	Logger *slog.Logger
	// SetAside moves a directory that nobody has dropped to quarantine.
	SetAside func(name string, why error) error
}

// Databases deals with directories of databases. names are those in the store's
// directory. It removes those whose drop the catalog has recorded, for a crash came
// before their removal. The others nobody has dropped: they are set aside. It returns
// what the catalog need not record any more.
func (c *Clearance) Databases(names []string) (removed meta.Dropped, err error) {
	data := c.Catalog
	removed.Databases = slices.Clone(data.Dropped.Databases) // what is recorded and not there is removed too
	any := false
	for _, name := range names {
		id, ok := Number(name, DatabasePrefix)
		if !ok {
			continue
		}
		dir := path.Join(c.Dir, name)
		if id > uint64(data.LastDatabaseID) {
			if c.Later {
				continue
			}
			return removed, olderCatalog(dir)
		}
		if data.DatabaseByID(uint32(id)) != nil {
			continue
		}
		why := fmt.Errorf("the catalog does not name %s, and has no record of a drop", dir)
		if slices.Contains(data.Dropped.Databases, uint32(id)) {
			why = NotOfDatabase(c.FS, dir, identity.Database{Lineage: data.Lineage, ID: uint32(id)})
		}
		if why != nil {
			if err := c.SetAside(name, why); err != nil {
				return removed, err
			}
			continue
		}
		c.Logger.Info("dropped database removed", "path", dir)
		if err := c.FS.RemoveAll(dir); err != nil {
			return removed, fmt.Errorf("remove dropped database: %w", err)
		}
		any = true
	}
	if any {
		if err := c.FS.SyncDir(c.Dir); err != nil {
			return removed, fmt.Errorf("remove dropped database: %w", err)
		}
	}
	return removed, nil
}

// Shards does for the directories of shards in a database's, dir, what
// Databases does for those of databases. wanted has the shards that the
// catalog names, dropped those whose drop it has recorded.
func (c *Clearance) Shards(dir string, names []string, wanted map[uint64]meta.ShardLocation, dropped map[uint64]bool) error {
	data := c.Catalog
	for _, name := range names {
		id, ok := Number(name, ShardPrefix)
		if !ok || wanted[id].Group != nil {
			continue
		}
		at := path.Join(dir, name)
		if id > data.LastShardID {
			if c.Later {
				continue
			}
			return olderCatalog(at)
		}
		why := fmt.Errorf("the catalog does not name %s, and has no record of a drop", at)
		if dropped[id] {
			why = NotOfShard(c.FS, at, data.Lineage, id)
		}
		if why != nil {
			if err := c.SetAside(name, why); err != nil {
				return err
			}
			continue
		}
		c.Logger.Info("dropped shard removed", "path", at)
		if err := c.FS.RemoveAll(at); err != nil {
			return fmt.Errorf("remove dropped shard: %w", err)
		}
	}
	if len(dropped) > 0 { // also of those that are gone: an earlier removal may not be durable yet
		if err := c.FS.SyncDir(dir); err != nil {
			return fmt.Errorf("remove dropped shard: %w", err)
		}
	}
	return nil
}
