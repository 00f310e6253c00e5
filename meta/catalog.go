package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// Options adjusts a Catalog. The zero value works.
type Options struct {
	Logger *slog.Logger // nil discards
	// MustExist makes Open refuse to start with an empty catalog
	// (ErrCatalogMissing): the caller has found data that one must describe.
	MustExist bool
	// BeforeSave is called before the files get changes; an error keeps them as they
	// are. nil does nothing.
	BeforeSave func() error
	// SetAside moves a damaged copy out of the directory before another takes its place. If it
	// fails, the copy is replaced all the same. nil does nothing.
	SetAside func(name string, why error) error
}

// copyNames are the two files of a catalog. Each holds the whole of it.
var copyNames = [2]string{"catalog.0", "catalog.1"}

// Catalog is the durable catalog of one server.
type Catalog struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger
	before func() error
	aside  func(name string, why error) error

	mu      sync.Mutex // held while data is replaced
	pending []byte     // the changes that the next Save appends to the files
	whole   bool       // it writes the files anew, and pending is nil

	data   atomic.Pointer[Data]
	saved  atomic.Uint64 // 1 more than the Index that both files have; 0: there are none
	urgent atomic.Uint64 // the Index of the last change that Due minds
	failed atomic.Pointer[error]

	// saving is held while the files are written.
	saving struct {
		sync.Mutex
		buf    []byte
		closed bool
		copies [2]copyState
	}
}

// copyState is what a Save knows of a copy.
type copyState struct {
	base, size int64  // bytes; size with the records
	spaces     int64  // at the end of the base
	shards     uint64 // LastShardID of the base
	sound      bool   // no write into it has failed
}

// Open reads the catalog in dir, or starts an empty one when neither copy
// exists. A copy that is damaged, lost or old is rewritten from the good one.
// When files exist and none is readable Open refuses with both reasons: an
// empty catalog would hide all data and open the server to everyone.
func Open(fsys vfs.FS, dir string, opt Options) (*Catalog, error) {
	c := &Catalog{fs: fsys, dir: dir, logger: opt.Logger, before: opt.BeforeSave, aside: opt.SetAside}
	if c.before == nil {
		c.before = func() error { return nil }
	}
	if c.aside == nil {
		c.aside = func(string, error) error { return nil }
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", dir, err)
	}
	// The directory's own name must be as durable as the files in it.
	if err := fsys.SyncDir(path.Dir(dir)); err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", dir, err)
	}
	// A process that was killed may have renamed the copies and not synced their
	// names: what is read here must not be undone by a power cut.
	if err := fsys.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", dir, err)
	}
	var copies [2]*Data
	var problems [2]error
	missing := 0
	for i := range copyNames {
		name := path.Join(dir, copyNames[i])
		copies[i], c.saving.copies[i], problems[i] = readCopy(fsys, name)
		switch {
		case errors.Is(problems[i], fs.ErrNotExist):
			missing++
		case problems[i] != nil && !errors.Is(problems[i], binio.ErrCorrupt):
			// A newer format or a disk that cannot be read: the other copy may
			// be older, and rewriting this one would destroy it.
			return nil, problems[i]
		}
	}
	best := (*Data)(nil)
	for _, d := range copies { // also that of a torn one: what was not saved the log has
		if d != nil && (best == nil || d.Index > best.Index) {
			best = d
		}
	}
	if best == nil {
		if missing < len(copyNames) {
			return nil, fmt.Errorf("open catalog %s: no readable copy, restore one from a backup or from the other copy: %w",
				dir, errors.Join(problems[:]...))
		}
		if opt.MustExist {
			return nil, fmt.Errorf("open catalog %s: %w", dir, ErrCatalogMissing)
		}
		best = &Data{Lineage: identity.NewLineage()}
		best.index()
		c.data.Store(best)
		c.whole = true
		return c, nil
	}
	c.data.Store(best)
	sound := true
	for i, d := range copies {
		name := path.Join(dir, copyNames[i])
		if problems[i] != nil {
			c.logger.Warn("catalog copy replaced from the other one", "path", name, "err", problems[i])
			if errors.Is(problems[i], binio.ErrCorrupt) && !errors.Is(problems[i], ErrTorn) {
				c.setAside(copyNames[i], problems[i])
			}
		}
		// A process that was killed may not have synced what it appended. The next Save
		// must not tear the only durable copy.
		sound = sound && problems[i] == nil && d.Index == best.Index && writeInPlace(fsys, name, 0, nil) == nil
	}
	if sound {
		c.saved.Store(best.Index + 1)
		for _, name := range copyNames { // of a Save that a crash ended
			if _, err := fsys.Stat(path.Join(dir, name+".tmp")); err == nil {
				_ = fsys.Remove(path.Join(dir, name+".tmp"))
			}
		}
		c.keepReserve()
		return c, nil
	}
	c.whole = true
	err := c.Save()
	if vfs.IsFull(err) {
		// The next Save writes both copies; a server that does not start could not be told
		// to drop anything.
		c.logger.Warn("catalog copy not replaced, the disk is full", "path", dir, "err", err)
	} else if err != nil {
		return nil, fmt.Errorf("repair catalog: %w", err)
	}
	return c, nil
}

// setAside sets a damaged copy aside, which a Save replaces.
func (c *Catalog) setAside(name string, why error) {
	if err := c.aside(name, why); err != nil {
		c.logger.Error("damaged file not moved to quarantine", "path", path.Join(c.dir, name), "err", err)
	}
}

// Data returns the present catalog. It takes no lock.
func (c *Catalog) Data() *Data { return c.data.Load() }

// Apply applies the change that the log has at sequence, for readers of Data at
// once, for the files with the next Save: the log keeps it until then. A change
// that Data has already is left out. A refused one changes nothing; the log
// refuses it on every machine and at every start.
func (c *Catalog) Apply(sequence uint64, ch *Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sequence <= c.Data().Applied {
		return nil
	}
	next, missing, err := ch.Apply(sequence, c.Data())
	switch ch.Command.(type) {
	case SetContinuousRuns, CompleteWindows:
	default:
		c.urgent.Store(next.Index)
	}
	if missing {
		c.logger.Error("changes of the catalog are missing in the log before this one", "sequence", sequence)
	}
	c.data.Store(next)
	if !c.whole {
		b, encodeErr := ch.encode()
		c.note(sequence, b, encodeErr)
	}
	return err
}

// Removed says that the directories of dropped databases and shards are gone,
// durably. The catalog forgets them. That is not worth a Save: to remove a
// directory twice does no harm.
func (c *Catalog) Removed(d Dropped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data.Store(c.Data().withoutDropped(d))
	if !c.whole {
		b, err := json.Marshal(d)
		c.note(0, b, err)
	}
}

// Skip makes the catalog give no number of a database and of a shard up to these. It saves
// the catalog: the log must not have a number that a replay would not give.
func (c *Catalog) Skip(database uint32, shard uint64) error {
	c.mu.Lock()
	next := *c.Data()
	next.LastDatabaseID, next.LastShardID = max(next.LastDatabaseID, database), max(next.LastShardID, shard)
	next.Index++
	c.data.Store(&next)
	c.pending, c.whole = nil, true
	c.mu.Unlock()
	return c.Save()
}

// Unsaved reports whether the files lack a change.
func (c *Catalog) Unsaved() bool { return c.saved.Load() != c.Data().Index+1 }

// Due reports whether the files lack a change that they should have soon. How far
// continuous queries and downsamples have come is not worth a Save: the log keeps it
// until another.
func (c *Catalog) Due() bool { return c.saved.Load() <= c.urgent.Load() }

// Save brings both copies up to date. After an error they are a catalog as of now
// or as of an earlier Save each, and the next Save tries again. A write that failed may
// have left one of them damaged, the other is whole then.
func (c *Catalog) Save() error { return c.save(c.write) }

// SaveDrop is Save for a drop, whose files are removed when it is saved: on a full disk it
// writes both copies into the reserve.
func (c *Catalog) SaveDrop() error {
	return c.save(func(d *Data, changes []byte) error {
		err := c.write(d, changes)
		if vfs.IsFull(err) {
			err = c.writeReserve(d, err)
		}
		if vfs.IsFull(err) && c.dropReserve() { // the file system writes nothing in place
			err = c.writeCopies(d)
		}
		return err
	})
}

func (c *Catalog) save(write func(d *Data, changes []byte) error) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	if c.saving.closed {
		return fmt.Errorf("save catalog %s: %w", c.dir, fs.ErrClosed)
	}
	c.mu.Lock()
	d, changes := c.Data(), c.pending
	unsaved := c.saved.Load() != d.Index+1
	if unsaved {
		c.pending, c.whole = nil, false
	}
	c.mu.Unlock()
	if unsaved {
		err := c.before()
		if err == nil {
			err = write(d, changes)
		}
		c.failed.Store(&err)
		if err != nil {
			c.rewrite()
			return err
		}
		c.saved.Store(d.Index + 1)
	}
	c.keepReserve()
	return nil
}

// rewrite has the next Save write the files anew.
func (c *Catalog) rewrite() {
	c.mu.Lock()
	c.pending, c.whole = nil, true
	c.mu.Unlock()
}

// write appends changes that lead to d to both copies. It writes them anew if there are no
// changes, or too many.
func (c *Catalog) write(d *Data, changes []byte) error {
	grown := int64(len(changes) + recordOverhead)
	for _, s := range c.saving.copies {
		if changes == nil || s.size-s.base+grown > recordsBytes {
			return c.writeCopies(d)
		}
	}
	c.saving.buf = appendRecord(c.saving.buf[:0], d.Index, changes)
	return c.appendCopies(c.saving.buf)
}

// appendCopies appends a record to both copies. The first has it durably before the second
// is written, so that one of them is whole at any time.
func (c *Catalog) appendCopies(record []byte) error {
	for i := range copyNames {
		s, name := &c.saving.copies[i], path.Join(c.dir, copyNames[i])
		s.sound = false
		if err := writeInPlace(c.fs, name, s.size, record); err != nil {
			return fmt.Errorf("write catalog %s: %w", name, err)
		}
		s.size, s.sound = s.size+int64(len(record)), true
	}
	return nil
}

// writeCopies replaces both copies. Both are written in full under temporary
// names before the first gets its own, so that a full disk changes nothing.
func (c *Catalog) writeCopies(d *Data) error {
	b, err := encode(c.saving.buf[:0], d, 0)
	if err != nil {
		return err
	}
	c.saving.buf = b
	// The copy replaced first alternates, so that a disk that always fails in
	// the middle of two renames does not always hit the same file.
	first := int(d.Index % 2)
	err = vfs.WriteTwice(c.fs, c.dir, path.Join(c.dir, copyNames[first]), path.Join(c.dir, copyNames[1-first]), b)
	if err != nil {
		return fmt.Errorf("write catalog %s: %w", c.dir, err)
	}
	for i := range c.saving.copies {
		c.saving.copies[i] = soundCopy(b, d)
	}
	return nil
}

// Check reads both copies. It returns the damage of those that are damaged, gone, or older
// than the last Save, sets these aside, and writes both again then.
func (c *Catalog) Check() (damage []error, err error) {
	if c.saved.Load() == 0 {
		return nil, nil // there are none
	}
	c.saving.Lock()
	for i, base := range copyNames {
		name := path.Join(c.dir, base)
		have, cerr := ReadFile(c.fs, name)
		if cerr == nil && have.Index+1 < c.saved.Load() {
			cerr = binio.Corruptf(name, c.saving.copies[i].size, "the copy ends with index %d, %d was saved", have.Index, c.saved.Load()-1)
		}
		if d := binio.DamageOf(name, cerr); d != nil {
			damage = append(damage, d)
			c.saving.copies[i].sound = false
			c.setAside(base, d)
		} else {
			err = errors.Join(err, cerr)
		}
	}
	if len(damage) > 0 { // before another Save appends to it
		c.rewrite()
		c.saved.Store(0)
	}
	c.saving.Unlock()
	if len(damage) > 0 {
		err = errors.Join(err, c.Save())
	}
	return damage, err
}

// Err returns why the latest Save failed, or nil.
func (c *Catalog) Err() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close waits for a Save under way and refuses later ones. Data stays readable.
func (c *Catalog) Close() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.saving.closed = true
	return nil
}
