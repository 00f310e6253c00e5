// Package overlay has a file system whose changes stay in memory. A tool opens a
// data directory through it as the server does, and the directory stays as it
// is. An FS can also show files under other names, and several as one.
package overlay

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tsdbd/internal/vfs"
)

// FS is a file system over another one, which it only reads. It is safe for
// concurrent use.
type FS struct {
	base vfs.FS

	mu    sync.Mutex
	files map[string]*file // made, renamed, mapped, or opened for writing
	dirs  map[string]bool  // made
	gone  map[string]bool  // files and directories removed from base
}

// New returns an overlay of base.
func New(base vfs.FS) *FS {
	return &FS{base: base, files: map[string]*file{}, dirs: map[string]bool{}, gone: map[string]bool{}}
}

// Map makes name a file that consists of parts of the base.
func (o *FS) Map(name string, parts ...Part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(name, &file{fs: o, parts: parts})
}

// Put makes name a file with this content.
func (o *FS) Put(name string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(name, &file{fs: o, data: data})
}

// The methods below in lower case are called with the lock held.

func (o *FS) put(name string, f *file) *file {
	o.files[name] = f
	o.makeDir(path.Dir(name))
	return f
}

func (o *FS) makeDir(dir string) {
	for ; dir != "/" && dir != "." && !o.dirs[dir]; dir = path.Dir(dir) {
		o.dirs[dir] = true
	}
}

// hidden reports whether name of the base, or a directory above it, was removed.
func (o *FS) hidden(name string) bool {
	for up := path.Dir(name); up != name; name, up = up, path.Dir(up) {
		if o.gone[name] {
			return true
		}
	}
	return o.gone[name]
}

func (o *FS) stat(op, name string) (os.FileInfo, error) {
	switch f := o.files[name]; {
	case f != nil:
		return info{path.Base(name), f.size(), false}, nil
	case o.dirs[name]:
		return info{path.Base(name), 0, true}, nil
	case o.hidden(name):
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return o.base.Stat(name)
}

// file returns a file that can be changed.
func (o *FS) file(op, name string) (*file, error) {
	if f := o.files[name]; f != nil {
		return f, nil
	}
	st, err := o.stat(op, name)
	if err != nil {
		return nil, err
	}
	return &file{fs: o, parts: []Part{{name, st.Size()}}}, nil
}

// Create makes a file in memory.
func (o *FS) Create(name string) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &handle{file: o.put(name, &file{fs: o})}, nil
}

// Open opens a file for reading.
func (o *FS) Open(name string) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.stat("open", name); err != nil {
		return nil, err
	}
	if f := o.files[name]; f != nil {
		return &handle{file: f}, nil
	}
	return o.base.Open(name)
}

// OpenReadWrite opens a file. What is written to it stays in memory.
func (o *FS) OpenReadWrite(name string) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, err := o.file("open", name)
	if err != nil {
		return nil, err
	}
	return &handle{file: o.put(name, f)}, nil
}

// Rename renames a file, or a directory with all that is in it.
func (o *FS) Rename(from, to string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rename(from, to)
}

func (o *FS) rename(from, to string) error {
	if st, err := o.stat("rename", from); err != nil {
		return err
	} else if st.IsDir() {
		names, err := o.list(from)
		o.makeDir(to)
		for _, n := range names {
			err = errors.Join(err, o.rename(path.Join(from, n), path.Join(to, n)))
		}
		o.removeAll(from)
		return err
	}
	f, err := o.file("rename", from)
	if err != nil {
		return err
	}
	o.removeAll(from)
	o.put(to, f)
	return nil
}

// Remove removes a file.
func (o *FS) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.stat("remove", name); err != nil {
		return err
	}
	o.removeAll(name)
	return nil
}

// RemoveAll removes a file or a directory with all that is in it.
func (o *FS) RemoveAll(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removeAll(name)
	return nil
}

func (o *FS) removeAll(name string) {
	inside := func(p string) bool { return p == name || strings.HasPrefix(p, name+"/") }
	maps.DeleteFunc(o.files, func(p string, _ *file) bool { return inside(p) })
	maps.DeleteFunc(o.dirs, func(p string, _ bool) bool { return inside(p) })
	o.gone[name] = true
}

// MkdirAll makes a directory.
func (o *FS) MkdirAll(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.makeDir(dir)
	return nil
}

// List returns the names in a directory, sorted.
func (o *FS) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list(dir)
}

func (o *FS) list(dir string) ([]string, error) {
	if _, err := o.stat("list", dir); err != nil {
		return nil, err
	}
	var names []string
	if !o.hidden(dir) {
		in, err := o.base.List(dir)
		if err != nil && !o.dirs[dir] {
			return nil, err
		}
		names = slices.DeleteFunc(in, func(n string) bool { return o.gone[path.Join(dir, n)] })
	}
	add := func(p string) {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	for p := range o.files {
		add(p)
	}
	for p := range o.dirs {
		add(p)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Stat describes a file or a directory.
func (o *FS) Stat(name string) (os.FileInfo, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stat("stat", name)
}

// SyncDir does nothing.
func (o *FS) SyncDir(string) error { return nil }

// Lock locks nothing: the owner of the overlay is alone on it.
func (o *FS) Lock(string) (vfs.Lock, error) { return nothing{}, nil }

// Free returns a large number: memory is not bounded here.
func (o *FS) Free(string) (uint64, error) { return 1 << 40, nil }

type nothing struct{}

func (nothing) Held() error  { return nil }
func (nothing) Close() error { return nil }

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
