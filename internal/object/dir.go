package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"tsdbd/internal/vfs"
)

// Dir is a directory of a file system as a Store: the object a/b is the file a/b. Put
// renames files. Two processes must not put at the same time: a lock keeps them apart.
type Dir struct {
	fs  vfs.FS
	dir string

	mu struct {
		sync.Mutex
		renamed map[string]bool // directories with names that are not durable yet
	}
}

// OpenDir returns the store in dir, which need not exist.
func OpenDir(fsys vfs.FS, dir string) *Dir {
	d := &Dir{fs: fsys, dir: path.Clean(dir)}
	d.mu.renamed = map[string]bool{}
	return d
}

func (d *Dir) path(name string) string { return path.Join(d.dir, name) }

// PartSuffix is that of files that Put of a Dir has not finished.
const PartSuffix = ".part"

// Put implements Store. It renames the file of c, which is in the same file system, or writes
// and syncs its bytes. A file that stays is copied, and may be in another file system.
func (d *Dir) Put(ctx context.Context, name string, c Content) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to := d.path(name)
	in := path.Dir(to)
	if c.Path != "" && c.Keep {
		part := to + PartSuffix
		if _, err := d.fs.Stat(to); err == nil {
			return fmt.Errorf("put %s: %w", to, ErrExists)
		}
		if err := d.copyFile(ctx, &c, part); err != nil {
			return fmt.Errorf("put %s: %w", to, err)
		}
		defer func() { _ = d.fs.Remove(part) }() // there is one if the name was taken meanwhile
		c.Path = part
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.fs.Stat(to); err == nil {
		return fmt.Errorf("put %s: %w", to, ErrExists)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if c.Path != "" && !c.Keep {
		if err := d.fs.Rename(c.Path, to); err != nil {
			return err
		}
		d.mu.renamed[in] = true
		return nil
	}
	if c.Keep {
		if err := d.fs.Rename(c.Path, to); err != nil {
			return err
		}
		return d.fs.SyncDir(in)
	}
	for dir := range d.mu.renamed {
		if err := d.fs.SyncDir(dir); err != nil {
			return err
		}
		delete(d.mu.renamed, dir)
	}
	if err := d.fs.MkdirAll(in); err != nil {
		return err
	}
	return vfs.WriteFileAtomic(d.fs, in, to, c.Bytes)
}

// copyFile writes the file of c to a name of the store, synced.
func (d *Dir) copyFile(ctx context.Context, c *Content, to string) error {
	if err := d.makeDir(path.Dir(to)); err != nil {
		return err
	}
	f, err := c.FS.Open(c.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	out, err := d.fs.Create(to)
	if err != nil {
		return err
	}
	in := c.Paced(ctx, contextReader{ctx, Remaining(io.NewSectionReader(f, 0, size), size)})
	_, err = io.Copy(struct{ io.Writer }{out}, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		err = errors.Join(err, d.fs.Remove(to))
	}
	return err
}

// makeDir makes a directory below that of the store, durably.
func (d *Dir) makeDir(dir string) error {
	if _, err := d.fs.Stat(dir); err == nil {
		return nil
	}
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	for at := dir; at != path.Dir(d.dir) && at != path.Dir(at); at = path.Dir(at) {
		if err := d.fs.SyncDir(path.Dir(at)); err != nil {
			return err
		}
	}
	return nil
}

// ReadRange implements Store.
func (d *Dir) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	if length < 0 {
		size, err := f.Size()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		length = max(size-offset, 0)
	}
	in := &contextReader{ctx, io.NewSectionReader(f, offset, length)}
	return struct {
		io.Reader
		io.Closer
	}{Remaining(in, length), f}, nil
}

// contextReader is a reader that ends with a context.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Stat implements Store.
func (d *Dir) Stat(_ context.Context, name string) (Info, error) {
	st, err := d.fs.Stat(d.path(name))
	if err != nil {
		return Info{}, err
	}
	return Info{Name: name, Size: st.Size(), Age: time.Since(st.ModTime())}, nil
}

// List implements Store.
func (d *Dir) List(ctx context.Context, dir string) ([]Info, error) {
	names, err := d.fs.List(d.path(dir))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(names))
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name := path.Join(dir, n)
		st, err := d.fs.Stat(d.path(name))
		if errors.Is(err, ErrNotFound) || err == nil && st.IsDir() {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Info{Name: name, Size: st.Size()})
	}
	return out, nil
}

// Delete implements Store.
func (d *Dir) Delete(ctx context.Context, names ...string) error {
	in := map[string]bool{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.fs.Remove(d.path(name)); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		in[path.Dir(d.path(name))] = true
	}
	for dir := range in {
		if err := d.fs.SyncDir(dir); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}
