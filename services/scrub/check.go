package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"tsdbd/inspect"
	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
	"tsdbd/shard/tails"
	"tsdbd/store/layout"
	"tsdbd/tsi"
	"tsdbd/tsm"
	"tsdbd/wal"
)

// Part is what is checked at once. The zero Part is the files in meta.
type Part struct {
	Database uint32
	Shard    uint64 // 0: it is the series file
	Log      bool   // the log of a single node
}

// String names the part as a path in the data directory.
func (p Part) String() string {
	switch {
	case p.Log:
		return "wal"
	case p.Database == 0:
		return "meta"
	case p.Shard == 0:
		return path.Join(layout.DatabaseDir(p.Database), "series")
	}
	return layout.ShardDir(p.Database, p.Shard)
}

// check reads a part once.
type check struct {
	ctx   context.Context
	dir   string
	store Store
	disk  vfs.FS  // as it is
	fs    pacedFS // at a rate
	// only has the files to look at, nil for all. When they were looked at last, they were
	// damaged or could not be read.
	only map[string]bool
	// damaged takes damage, and whether it was repaired.
	damaged func(err error, mended bool)
	// failed takes a file of a shard that could not be read or rewritten.
	failed func(name string, err error)
}

// askEvery is how many bytes of a file are read before it is asked whether the shard still
// has the file: until then one that was removed keeps its space.
const askEvery = 16 << 20

var errReplaced = errors.New("the shard has other files")

// part checks a part. An error is what kept it from being read as a whole. A part that was
// dropped meanwhile has none.
func (c *check) part(p Part) error {
	var err error
	switch {
	case p.Log:
		err = c.log()
	case p.Database == 0:
		err = c.meta()
	case p.Shard == 0:
		err = c.series(p.Database)
	default:
		err = c.shard(p.Shard)
	}
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	var unopened *layout.RefusedError
	if errors.Is(err, meta.ErrShardNotFound) || errors.Is(err, meta.ErrDatabaseNotFound) || errors.Is(err, binio.ErrCorrupt) || errors.As(err, &unopened) {
		return nil // dropped, or reported before
	}
	return err
}

// meta checks the files in meta.
func (c *check) meta() error {
	damage, err := c.store.CheckMeta()
	for _, d := range damage {
		c.damaged(d, err == nil)
	}
	return err
}

// log checks the log of a single node, except for its active segment. The rows of its
// entries are in memory or in files: if all are in files, no start reads the log.
func (c *check) log() error {
	look := func() ([]wal.Damage, error) { return wal.Check(c.fs, path.Join(c.dir, "wal"), c.ctx.Err) }
	first, err := look()
	if len(first) == 0 || err != nil {
		return err
	}
	damage, err := look()
	if err != nil {
		return err
	}
	for _, d := range damage {
		if slices.ContainsFunc(first, func(f wal.Damage) bool { return f.Segment == d.Segment && f.Offset == d.Offset }) {
			c.damaged(binio.Corruptf(d.Segment, d.Offset, "%s", d.Reason), false)
		}
	}
	return nil
}

// series checks a series file, and does not hold it while it is read slowly.
func (c *check) series(database uint32) error {
	log, look := path.Join(c.dir, layout.DatabaseDir(database), "series", series.LogName), (*series.File)(nil)
	err := c.store.RepairSeries(database, func(f *series.File, _ *repair.Quarantine) error {
		if _, err := c.disk.Stat(log); errors.Is(err, fs.ErrNotExist) && f.Bytes() > 0 {
			err := f.Rewrite(true) // the open file has all of it
			c.damaged(binio.Corruptf(log, -1, "the file is gone"), err == nil)
			return err
		}
		look = f
		return nil
	})
	if look == nil || err != nil || len(look.Verify(c.fs)) == 0 || c.ctx.Err() != nil {
		return err
	}
	return c.store.RepairSeries(database, func(f *series.File, _ *repair.Quarantine) error { return c.seriesAgain(f) })
}

// seriesAgain looks at a series file that is not sound once more. Its owner repairs it if the
// error is damage.
func (c *check) seriesAgain(f *series.File) error {
	var inLog, inIndex error
	for _, err := range f.Verify(pacedFS{c.disk, func(int) error { return c.ctx.Err() }}) {
		var at *binio.CorruptError
		switch {
		case !errors.As(err, &at):
			return err
		case path.Base(at.Path) == series.IndexName:
			inIndex = errors.Join(inIndex, err)
		default:
			c.damaged(err, false)
			inLog = errors.Join(inLog, err)
		}
	}
	if inLog == nil && inIndex != nil { // it follows from the log
		err := f.Rewrite(true)
		c.damaged(inIndex, err == nil)
		return err
	}
	return inLog
}

// shard checks the files of a shard. It holds none of them longer than it reads it, so that
// what is dropped or merged meanwhile leaves the disk.
func (c *check) shard(id uint64) error {
	sh, release, err := c.store.OpenShard(id)
	if err != nil {
		return err
	}
	held, err := sh.Export()
	if held == nil || err != nil {
		release()
		return err
	}
	held.Release()
	saved := sh.Saved()
	if saved {
		c.manifests(sh, held.Dir)
	}
	release()
	if !saved {
		return nil
	}
	for i := range held.Manifest.TSM {
		if f := &held.Manifest.TSM[i]; f.Cold() {
			c.file(sh, held.Dir, f, c.tailLook, c.tailCloser)
		} else {
			c.file(sh, held.Dir, f, tsmLook, c.tsmCloser)
		}
	}
	for i := range held.Manifest.TSI {
		c.file(sh, held.Dir, &held.Manifest.TSI[i], tsiLook, c.tsiCloser)
	}
	return nil
}

// file checks a file of a shard. Damage counts only if the shard still has the file.
func (c *check) file(sh *shard.Shard, dir string, rec *manifest.File, look func(vfs.FS, string, *manifest.File) error, closer func(name string) error) {
	name, unasked := path.Join(dir, rec.Name), 0
	current := func() bool { return c.ctx.Err() == nil && c.current(sh, dir, rec.Name) }
	paced := pacedFS{c.disk, func(bytes int) error {
		if unasked += bytes; unasked >= askEvery {
			if unasked = 0; !current() {
				return errReplaced
			}
		}
		return c.fs.pace(bytes)
	}}
	if !c.wanted(name) || !current() {
		return
	}
	err := look(paced, name, rec)
	if err == nil || !current() {
		return
	}
	var at *binio.CorruptError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = binio.Corruptf(name, -1, "the file is gone")
		if d := sh.IndexDamage(); d != nil && d.Path == name {
			err = d // it is in quarantine, and the manifest is about to name its replacement
		}
	case !errors.As(err, &at) && !c.only[name]:
		// It may pass.
	default:
		// The closer look says where. What cannot be read is damaged if that look finds it to be,
		// as a query would.
		if found := closer(name); errors.As(found, &at) {
			err = at
		} else {
			err = look(paced, name, rec)
		}
	}
	switch {
	case err == nil || !current():
	case errors.As(err, &at):
		sh.Blame(at)
		c.damaged(err, false)
	default:
		c.failed(name, fmt.Errorf("read %s: %w", name, err))
	}
}

// wanted reports whether a file is to be looked at.
func (c *check) wanted(name string) bool { return c.only == nil || c.only[name] }

// current reports whether a shard is in use and has a file (""; any): it may have been
// dropped, or have other files now.
func (c *check) current(sh *shard.Shard, dir, name string) bool {
	now, release, err := c.store.OpenShard(sh.ID())
	if err != nil {
		return false
	}
	release()
	m, err := manifest.Read(c.disk, dir)
	return now == sh && (name == "" || err != nil || m.Has(name))
}

// manifests checks the copies of a manifest, and writes them again if one is damaged.
func (c *check) manifests(sh *shard.Shard, dir string) {
	var damage []error
	for _, name := range manifest.Names {
		if !c.wanted(path.Join(dir, name)) {
			continue
		}
		err := manifest.ReadCopy(c.fs, dir, name).Err
		if d := binio.DamageOf(path.Join(dir, name), err); d != nil {
			damage = append(damage, d)
		} else if err != nil {
			c.failed(path.Join(dir, name), err)
		}
	}
	if len(damage) == 0 || !c.current(sh, dir, "") || c.ctx.Err() != nil {
		return
	}
	var err error
	for _, d := range damage {
		err = errors.Join(err, c.keep(sh.Quarantine(), dir, d, fmt.Sprintf("The manifest of shard %d was written again: nothing is lost.", sh.ID())))
	}
	if err == nil {
		err = sh.SaveAgain()
	}
	for _, d := range damage {
		c.damaged(d, err == nil)
		if err != nil {
			c.failed(damageAt(d).Path, err)
		}
	}
}

// keep has the quarantine keep a damaged file that is about to be replaced, unless it has it
// since an earlier try.
func (c *check) keep(q *repair.Quarantine, dir string, damage error, effect string) error {
	name := damageAt(damage).Path
	st, err := c.disk.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, kept := range q.List() {
		if before, kerr := c.disk.Stat(kept.Path); err == nil && kerr == nil && os.SameFile(st, before) {
			return nil
		}
	}
	return q.Keep(path.Base(name), damage, effect)
}

// damageAt returns what an error says of the place of damage.
func damageAt(err error) *binio.CorruptError {
	at := &binio.CorruptError{Offset: -1, Reason: err.Error()}
	_ = errors.As(err, &at)
	return at
}

// tsmLook compares the checksum of a data file. It cannot say where damage is.
func tsmLook(fs vfs.FS, name string, rec *manifest.File) error {
	return tsm.CheckFile(fs, name, tsm.Info{Checksum: rec.Checksum, Size: rec.Size})
}

// tsmCloser goes through the blocks of a data file.
func (c *check) tsmCloser(name string) error {
	r, err := tsm.Open(c.disk, name)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verify(c.ctx)
}

// tailLook checks the tail of a file whose body is in the cold store.
func (c *check) tailLook(fs vfs.FS, name string, rec *manifest.File) error {
	r, err := tsm.OpenTail(fs, name, tails.Absent{Object: rec.Object()})
	if err != nil {
		return err
	}
	defer r.Close()
	if i := r.Info(); i.Checksum != rec.Checksum || i.Size != rec.Size {
		return binio.Corruptf(name, -1, "this is another file")
	}
	return r.VerifyTail(c.ctx)
}

// tailCloser is tailLook where it is not known which file it should be.
func (c *check) tailCloser(name string) error {
	r, err := tsm.OpenTail(c.disk, name, tails.Absent{Object: name})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.VerifyTail(c.ctx)
}

// tsiLook compares the checksum of an index file.
func tsiLook(fs vfs.FS, name string, rec *manifest.File) error {
	sum, err := inspect.HashFile(fs, name)
	if err == nil && sum != rec.Checksum {
		err = binio.Corruptf(name, -1, "checksum %016x, the manifest says %016x", sum, rec.Checksum)
	}
	return err
}

// tsiCloser goes through the pages of an index file.
func (c *check) tsiCloser(name string) error {
	f, err := tsi.OpenFile(c.disk, name)
	if err != nil {
		return err
	}
	return errors.Join(f.Verify(), f.Release())
}
