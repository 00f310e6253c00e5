package layout

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard/manifest"
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
	// Skip makes the catalog give no number up to these, because directories have them.
	Skip func(database uint32, shard uint64) error
}

// maxSkipped is the highest number of a directory that counts. A server never gives as
// many.
const maxSkipped = 1 << 31

// stray returns an error if the directory of a database or shard that the catalog has never
// given has data of this data directory: the catalog is older. Anything else is nobody's,
// and does not keep the store from opening.
func (c *Clearance) stray(dir string, database uint32, shard uint64) error {
	ours, err := c.ours(dir)
	switch {
	case err != nil:
		return fmt.Errorf("open store: %w", err)
	case ours:
		return olderCatalog(dir)
	case max(uint64(database), shard) >= maxSkipped:
		return nil
	}
	if err := c.Skip(database, shard); err != nil && !vfs.IsFull(err) {
		return err
	}
	return nil
}

// ours reports whether a directory, or one of a shard in it, has data of this data
// directory. A name that is no directory has none.
func (c *Clearance) ours(dir string) (bool, error) {
	if st, err := c.FS.Stat(dir); err != nil || !st.IsDir() {
		return false, err
	}
	names, err := c.FS.List(dir)
	if err != nil {
		return false, err
	}
	owner, err := series.ReadOwner(c.FS, path.Join(dir, "series"))
	if err == nil && owner.Lineage == c.Catalog.Lineage {
		return true, nil
	}
	errs := []error{err}
	for _, at := range append(names, ".") {
		if _, ok := Number(at, ShardPrefix); !ok && at != "." {
			continue
		}
		m, err := manifest.Read(c.FS, path.Join(dir, at))
		if err == nil && m.Lineage == c.Catalog.Lineage {
			return true, nil
		}
		errs = append(errs, err)
	}
	for _, err := range errs {
		if err != nil && !binio.Damaged(err) && !errors.Is(err, binio.ErrVersion) {
			return false, err
		}
	}
	return false, nil
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
			if err := c.stray(dir, uint32(min(id, maxSkipped)), 0); err != nil {
				return removed, err
			}
		} else if data.DatabaseByID(uint32(id)) != nil {
			continue
		}
		why := fmt.Errorf("the catalog does not name %s, and has no record of a drop", dir)
		if id <= uint64(data.LastDatabaseID) && slices.Contains(data.Dropped.Databases, uint32(id)) {
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
			if err := c.stray(at, 0, id); err != nil {
				return err
			}
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
