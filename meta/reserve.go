package meta

import (
	"path"

	"tsdbd/internal/vfs"
)

// reserveName is a file of zeros beside the copies. It is given up on a full
// disk, so that the catalog can be saved: what makes room waits for that.
const reserveName = "reserve"

// reserveBytes is its least size. Two copies must fit in, with the blocks that
// the file system takes for names.
const reserveBytes = 16 << 10

// Frees reports whether a command drops data: it makes room on a full disk.
func Frees(cmd Command) bool {
	switch cmd.(type) {
	case DropDatabase, DropRetentionPolicy, DropShardGroup, DropShard:
		return true
	}
	return false
}

// keepReserve makes the reserve unless it is there and large enough for twice
// the catalog. Without space there is none until the next Save.
func (c *Catalog) keepReserve() {
	want := int64(max(reserveBytes, 4*len(c.saving.buf)))
	name := path.Join(c.dir, reserveName)
	if info, err := c.fs.Stat(name); err == nil && info.Size() >= want {
		return
	}
	if free, err := c.fs.Free(c.dir); err == nil && free < uint64(2*want) {
		return
	}
	if err := vfs.WriteFileSynced(c.fs, name, make([]byte, want)); err != nil {
		_ = c.fs.Remove(name)
		c.logger.Warn("no reserve for drops on a full disk", "path", name, "err", err)
	}
}

// dropReserve gives the reserve's space back and reports whether there was one.
func (c *Catalog) dropReserve() bool {
	if err := c.fs.Remove(path.Join(c.dir, reserveName)); err != nil {
		return false
	}
	// Some file systems reuse the blocks only when the removal is durable.
	return c.fs.SyncDir(c.dir) == nil
}
