package meta

import (
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
}

// copyNames are the two files of a catalog. Each holds the whole of it.
var copyNames = [2]string{"catalog.0", "catalog.1"}

// Catalog is the durable catalog of one server.
type Catalog struct {
	fs     vfs.FS
	dir    string
	handle vfs.Dir // of dir: between two renames and their sync no file need be opened
	logger *slog.Logger
	data   atomic.Pointer[Data]

	mu struct {
		sync.Mutex
		buf     []byte
		failed  error   // W7: the first failed write
		removed Dropped // what Removed named since the last change
		closed  bool
	}
}

// Open reads the catalog in dir, or starts an empty one when neither copy
// exists. A copy that is damaged, lost or old is rewritten from the good one.
// When files exist and none is readable Open refuses with both reasons: an
// empty catalog would hide all data and open the server to everyone.
func Open(fsys vfs.FS, dir string, opt Options) (_ *Catalog, err error) {
	c := &Catalog{fs: fsys, dir: dir, logger: opt.Logger}
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
	if c.handle, err = fsys.OpenDir(dir); err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.handle.Close())
		}
	}()
	// A process that was killed may have renamed the copies and not synced their
	// names: what is read here must not be undone by a power cut.
	if err := c.handle.Sync(); err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", dir, err)
	}
	var copies [2]*Data
	var problems [2]error
	missing := 0
	for i := range copyNames {
		name := path.Join(dir, copyNames[i])
		copies[i], problems[i] = readCopy(fsys, name)
		switch {
		case errors.Is(problems[i], fs.ErrNotExist):
			missing++
		case problems[i] != nil && !errors.Is(problems[i], binio.ErrCorrupt):
			// A newer format or a disk that cannot be read: the other copy may
			// be older, and rewriting this one would destroy it.
			return nil, problems[i]
		}
	}
	best := copies[0]
	if best == nil || (copies[1] != nil && copies[1].Index > best.Index) {
		best = copies[1]
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
		return c, nil
	}
	for i := range copies {
		if copies[i] != nil && copies[i].Index == best.Index {
			continue
		}
		if problems[i] != nil {
			c.logger.Warn("catalog copy replaced from the other one", "path", path.Join(dir, copyNames[i]), "err", problems[i])
		}
		err := c.writeCopy(i, best)
		if vfs.IsFull(err) {
			// The next change writes both copies; a server that does not start
			// could not be told to drop anything.
			c.logger.Warn("catalog copy not replaced, the disk is full", "path", path.Join(dir, copyNames[i]), "err", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("repair catalog: %w", err)
		}
	}
	c.data.Store(best)
	c.keepReserve()
	return c, nil
}

func readCopy(fsys vfs.FS, name string) (*Data, error) {
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read catalog %s: %w", name, err)
	}
	return decode(name, b)
}

// Data returns the present catalog. It takes no lock.
func (c *Catalog) Data() *Data { return c.data.Load() }

// Apply makes a change durable in both copies and publishes it. It returns the
// catalog after the change, or the present one if cmd changes nothing.
//
// A refused command leaves everything as it was. So does an error before the
// first copy is replaced, as of a full disk, on which commands that drop data
// find room in the reserve, or of a process without a free file descriptor.
// After an error behind that nothing is published and every later change fails
// with ErrReadOnly; only the next Open tells whether the failed one took place.
func (c *Catalog) Apply(cmd Command) (*Data, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applyLocked(cmd)
}

// ApplyAt is Apply if the catalog still has this index; else it returns
// ErrIndexChanged and changes nothing.
func (c *Catalog) ApplyAt(index uint64, cmd Command) (*Data, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.Data().Index; have != index {
		return nil, fmt.Errorf("%w: index is %d, expected %d", ErrIndexChanged, have, index)
	}
	return c.applyLocked(cmd)
}

func (c *Catalog) applyLocked(cmd Command) (*Data, error) {
	if c.mu.closed {
		return nil, fmt.Errorf("change catalog %s: %w", c.dir, fs.ErrClosed)
	}
	current := c.Data()
	next, err := Apply(cmd, current)
	if err != nil {
		return nil, err
	}
	if next == current {
		return current, nil
	}
	if c.mu.failed != nil {
		return nil, fmt.Errorf("%w after: %w", ErrReadOnly, c.mu.failed)
	}
	next.Dropped = next.Dropped.without(c.mu.removed)
	changed, err := c.writeCopies(next)
	if _, frees := cmd.(freeing); err != nil && frees && !changed && vfs.IsFull(err) && c.dropReserve() {
		changed, err = c.writeCopies(next)
	}
	switch {
	case err != nil && !changed:
		return nil, err // both copies are as they were: the next change may pass
	case err != nil:
		c.mu.failed = err
		c.logger.Error("catalog is read-only after a failed write", "err", err)
		return nil, err
	}
	c.data.Store(next)
	c.mu.removed = Dropped{}
	c.keepReserve()
	return next, nil
}

// Removed says that the directories of dropped databases and shards are gone,
// durably. The next change of the catalog forgets them: a write of its own is
// not worth it, for to remove a directory twice does no harm.
func (c *Catalog) Removed(d Dropped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.removed.Databases = append(c.mu.removed.Databases, d.Databases...)
	c.mu.removed.Shards = append(c.mu.removed.Shards, d.Shards...)
}

// writeCopies replaces both copies. Both are written in full under temporary
// names before the first gets its own, so that a full disk or a lack of descriptors changes nothing;
// changed says that it went further than that.
func (c *Catalog) writeCopies(d *Data) (changed bool, err error) {
	b, err := encode(c.mu.buf[:0], d)
	if err != nil {
		return false, err
	}
	c.mu.buf = b
	// The copy replaced first alternates, so that a disk that always fails in
	// the middle of two renames does not always hit the same file.
	first := int(d.Index % 2)
	order := [2]string{path.Join(c.dir, copyNames[first]), path.Join(c.dir, copyNames[1-first])}
	for _, name := range order {
		if err = c.writeTemporary(name+".tmp", b); err != nil {
			for _, name := range order {
				_ = c.fs.Remove(name + ".tmp") // may not be there
			}
			return false, fmt.Errorf("write catalog %s: %w", name, err)
		}
	}
	for _, name := range order {
		if err := c.fs.Rename(name+".tmp", name); err != nil {
			return true, fmt.Errorf("write catalog %s: %w", name, err)
		}
	}
	if err := c.handle.Sync(); err != nil {
		return true, fmt.Errorf("write catalog %s: %w", c.dir, err)
	}
	return true, nil
}

func (c *Catalog) writeTemporary(name string, b []byte) error {
	f, err := c.fs.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// writeCopy replaces one copy. Callers hold mu or are alone.
func (c *Catalog) writeCopy(i int, d *Data) error {
	b, err := encode(c.mu.buf[:0], d)
	if err != nil {
		return err
	}
	c.mu.buf = b
	name := path.Join(c.dir, copyNames[i])
	if err := vfs.WriteFileAtomic(c.fs, c.dir, name, b); err != nil {
		return fmt.Errorf("write catalog %s: %w", name, err)
	}
	return nil
}

// Err returns the failed write that made the catalog read-only, or nil.
func (c *Catalog) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.failed
}

// Close waits for a change under way and refuses later ones. Data stays readable.
func (c *Catalog) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil
	}
	c.mu.closed = true
	return c.handle.Close()
}
