package inspect

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tsdbd/internal/vfs"
)

// Part is a piece of a file that stands elsewhere.
type Part struct {
	Path string
	Size int64
}

// Overlay is a file system whose changes stay in memory.
type Overlay struct {
	base vfs.FS

	mu    sync.Mutex
	files map[string]*overlayFile // made, mapped or written to
	dirs  map[string]bool         // made
	gone  map[string]bool         // files and directories removed from base
}

// NewOverlay returns an overlay of base, which is only read.
func NewOverlay(base vfs.FS) *Overlay {
	return &Overlay{base: base, files: map[string]*overlayFile{}, dirs: map[string]bool{}, gone: map[string]bool{}}
}

// Map makes name a file that consists of parts, which are files of the base.
func (o *Overlay) Map(name string, parts ...Part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &overlayFile{fs: o, name: name, parts: parts}
	for _, p := range parts {
		f.size += p.Size
	}
	o.putLocked(name, f)
}

// Put makes name a file with this content.
func (o *Overlay) Put(name string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &overlayFile{fs: o, name: name}
	f.writeLocked(data, 0)
	o.putLocked(name, f)
}

func (o *Overlay) putLocked(name string, f *overlayFile) {
	o.files[name] = f
	o.makeLocked(path.Dir(name))
}

func (o *Overlay) makeLocked(dir string) {
	for ; dir != "/" && dir != "." && !o.dirs[dir]; dir = path.Dir(dir) {
		o.dirs[dir] = true
	}
}

// hiddenLocked reports whether name of the base was removed.
func (o *Overlay) hiddenLocked(name string) bool {
	for {
		if o.gone[name] {
			return true
		}
		up := path.Dir(name)
		if up == name {
			return false
		}
		name = up
	}
}

func notExist(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Create makes a file in memory.
func (o *Overlay) Create(name string) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &overlayFile{fs: o, name: name}
	o.putLocked(name, f)
	return &overlayHandle{overlayFile: f}, nil
}

// Open opens a file for reading.
func (o *Overlay) Open(name string) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.files[name]; f != nil {
		return &overlayHandle{overlayFile: f}, nil
	}
	if o.hiddenLocked(name) {
		return nil, notExist("open", name)
	}
	return o.base.Open(name)
}

// OpenReadWrite opens a file; what is written stays in memory.
func (o *Overlay) OpenReadWrite(name string) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.files[name]
	if f == nil {
		if o.hiddenLocked(name) {
			return nil, notExist("open", name)
		}
		st, err := o.base.Stat(name)
		if err != nil {
			return nil, err
		}
		f = &overlayFile{fs: o, name: name, size: st.Size(), parts: []Part{{name, st.Size()}}}
		o.putLocked(name, f)
	}
	return &overlayHandle{overlayFile: f}, nil
}

// Rename renames a file, or a directory with all that is in it.
func (o *Overlay) Rename(from, to string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.renameLocked(from, to)
}

func (o *Overlay) renameLocked(from, to string) error {
	f := o.files[from]
	if f == nil {
		st, err := o.statLocked(from)
		if err != nil {
			return err
		}
		if st.IsDir() {
			names, err := o.listLocked(from)
			if err != nil {
				return err
			}
			o.makeLocked(to)
			for _, n := range names {
				if err := o.renameLocked(path.Join(from, n), path.Join(to, n)); err != nil {
					return err
				}
			}
			delete(o.dirs, from)
			o.gone[from] = true
			return nil
		}
		f = &overlayFile{fs: o, size: st.Size(), parts: []Part{{from, st.Size()}}}
	}
	delete(o.files, from)
	o.gone[from] = true
	f.name = to
	o.putLocked(to, f)
	return nil
}

// Remove removes a file.
func (o *Overlay) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.files[name] == nil {
		if o.hiddenLocked(name) {
			return notExist("remove", name)
		}
		if _, err := o.base.Stat(name); err != nil {
			return err
		}
	}
	delete(o.files, name)
	o.gone[name] = true
	return nil
}

// RemoveAll removes a file or a directory with all that is in it.
func (o *Overlay) RemoveAll(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	inside := func(p string) bool { return p == name || strings.HasPrefix(p, name+"/") }
	for p := range o.files {
		if inside(p) {
			delete(o.files, p)
		}
	}
	for p := range o.dirs {
		if inside(p) {
			delete(o.dirs, p)
		}
	}
	o.gone[name] = true
	return nil
}

// MkdirAll makes a directory.
func (o *Overlay) MkdirAll(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.makeLocked(dir)
	return nil
}

// List returns the names in a directory, sorted.
func (o *Overlay) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listLocked(dir)
}

func (o *Overlay) listLocked(dir string) ([]string, error) {
	seen := map[string]bool{}
	known := o.dirs[dir]
	if !o.hiddenLocked(dir) {
		names, err := o.base.List(dir)
		if err != nil && !known {
			return nil, err
		}
		known = true
		for _, n := range names {
			if !o.gone[path.Join(dir, n)] {
				seen[n] = true
			}
		}
	}
	if !known {
		return nil, notExist("list", dir)
	}
	for p := range o.files {
		if path.Dir(p) == dir {
			seen[path.Base(p)] = true
		}
	}
	for p := range o.dirs {
		if path.Dir(p) == dir {
			seen[path.Base(p)] = true
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// Stat describes a file or a directory.
func (o *Overlay) Stat(name string) (os.FileInfo, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.statLocked(name)
}

func (o *Overlay) statLocked(name string) (os.FileInfo, error) {
	if f := o.files[name]; f != nil {
		return overlayInfo{path.Base(name), f.size, false}, nil
	}
	if o.dirs[name] {
		return overlayInfo{path.Base(name), 0, true}, nil
	}
	if o.hiddenLocked(name) {
		return nil, notExist("stat", name)
	}
	return o.base.Stat(name)
}

// SyncDir does nothing.
func (o *Overlay) SyncDir(string) error { return nil }

// OpenDir returns a directory whose Sync does nothing.
func (o *Overlay) OpenDir(string) (vfs.Dir, error) { return overlayDir{}, nil }

type overlayDir struct{}

func (overlayDir) Sync() error  { return nil }
func (overlayDir) Close() error { return nil }

// Lock locks nothing: the owner of the overlay is alone on it.
func (o *Overlay) Lock(string) (vfs.Lock, error) { return overlayLock{}, nil }

type overlayLock struct{ overlayDir }

func (overlayLock) Held() error { return nil }

// Free returns the base's answer.
func (o *Overlay) Free(dir string) (uint64, error) { return 1 << 40, nil }

type overlayInfo struct {
	name string
	size int64
	dir  bool
}

func (i overlayInfo) Name() string       { return i.name }
func (i overlayInfo) Size() int64        { return i.size }
func (i overlayInfo) IsDir() bool        { return i.dir }
func (i overlayInfo) ModTime() time.Time { return time.Time{} }
func (i overlayInfo) Sys() any           { return nil }
func (i overlayInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
