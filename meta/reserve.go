package meta

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"tsdbd/internal/vfs"
)

// reserveNames are files of zeros beside the copies. On a full disk a drop is written
// into them, in place, before they get the copies' names: what makes room waits for that,
// and nobody else can take their blocks.
var reserveNames = [2]string{"reserve.0", "reserve.1"}

// reserveBytes is the least size of each.
const reserveBytes = 8 << 10

// Drops reports whether a command drops data.
func Drops(cmd Command) bool {
	switch cmd.(type) {
	case DropDatabase, DropRetentionPolicy, DropShardGroup, DropShard:
		return true
	}
	return false
}

// Reserve returns how many quarters of the space that the log keeps on a full disk a command
// may have. Rows that let others expire may have two. The last one is for what drops data,
// however many windows are completed before.
func Reserve(cmd Command) uint8 {
	switch c := cmd.(type) {
	case DropDownsample:
		return 4
	case CompleteWindows:
		return 3
	case CreateShardGroups:
		if c.Frees {
			return 3
		}
	}
	if Drops(cmd) {
		return 4
	}
	return 0
}

// shardBytes is more than a new shard adds to the payload of a file. What else a change adds
// is less than twice its record: a new database has names and durations that it does not say.
const shardBytes = 128

// keepReserve makes the files of the reserve that are not there or not large enough for
// the catalog, for twice as much. Without space there are none until the next Save.
func (c *Catalog) keepReserve() {
	least := int64(reserveBytes)
	for _, s := range c.saving.copies {
		least = max(least, s.size-s.spaces+s.size-s.base+int64(c.Data().LastShardID-s.shards)*shardBytes)
	}
	for _, name := range reserveNames {
		name = path.Join(c.dir, name)
		if info, err := c.fs.Stat(name); err == nil && info.Size() >= least {
			continue
		}
		want := least
		if want > reserveBytes {
			want *= 2
		}
		if free, err := c.fs.Free(c.dir); err == nil && free < uint64(4*want) {
			return
		}
		if err := vfs.WriteFileSynced(c.fs, name, make([]byte, want)); err != nil {
			_ = c.fs.Remove(name)
			c.logger.Warn("no reserve for drops on a full disk", "path", name, "err", err)
		}
	}
}

// writeReserve writes the catalog in place of the reserve's files, which then change names
// with the copies: the next drop has a reserve again. Without one it returns full.
func (c *Catalog) writeReserve(d *Data, full error) error {
	var states [2]copyState
	for i := range reserveNames {
		name := path.Join(c.dir, reserveNames[i])
		info, err := c.fs.Stat(name)
		if err != nil {
			return full
		}
		// The end of the last block is the file's as well.
		room := (int(info.Size()) + vfs.PageBytes - 1) / vfs.PageBytes * vfs.PageBytes
		b, err := encode(nil, d, room)
		if err != nil {
			return err
		}
		if len(b) > room {
			return full
		}
		if err := writeInPlace(c.fs, name, 0, b); err != nil {
			return fmt.Errorf("write catalog %s: %w", name, err)
		}
		states[i] = soundCopy(b, d)
	}
	first := 0
	if !c.saving.copies[1].sound {
		first = 1
	}
	for _, i := range []int{first, 1 - first} { // one sound copy is there at any time
		c.saving.copies[i].sound = false
		name, reserve := path.Join(c.dir, copyNames[i]), path.Join(c.dir, reserveNames[i])
		err := c.fs.Rename(name, name+".tmp")
		gone := errors.Is(err, fs.ErrNotExist) // a server was killed here
		if err == nil || gone {
			err = c.fs.Rename(reserve, name)
		}
		if err == nil && !gone {
			err = c.fs.Rename(name+".tmp", reserve)
		}
		if err == nil {
			err = c.fs.SyncDir(c.dir)
		}
		if err != nil {
			return fmt.Errorf("write catalog %s: %w", name, err)
		}
		c.saving.copies[i] = states[i]
	}
	return nil
}

// dropReserve gives the reserve's space back and reports whether there was any.
func (c *Catalog) dropReserve() bool {
	some := false
	for _, name := range reserveNames {
		some = c.fs.Remove(path.Join(c.dir, name)) == nil || some
	}
	// Some file systems reuse the blocks only when the removal is durable.
	return some && c.fs.SyncDir(c.dir) == nil
}

// writeInPlace writes b into a file at offset at.
func writeInPlace(fsys vfs.FS, name string, at int64, b []byte) error {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, at); err == nil {
		err = f.SyncData()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
