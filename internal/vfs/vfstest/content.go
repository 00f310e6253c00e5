package vfstest

import (
	"fmt"
	"path"
	"slices"
)

// Clone returns an independent file system with the same content, all of it
// durable: what a program finds that starts again without a power cut. It may
// not be called from a hook.
func (m *FS) Clone() *FS { return m.CrashLocked(nil, 1) }

// Content returns a copy of a file's content, nil if there is no such file.
func (m *FS) Content(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(clean(name))
	if err != nil || n.isDir {
		return nil
	}
	return append([]byte{}, n.data...)
}

// Put makes a file hold a copy of data, synced and visible at once, with the
// directories above it. The hook is not asked.
func (m *FS) Put(name string, data []byte) error {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mkdirAllLocked(path.Dir(name)); err != nil {
		return err
	}
	d := m.dirs[path.Dir(name)]
	n := d.names[path.Base(name)]
	if n == nil {
		n = &inode{name: name}
		d.names[path.Base(name)] = n
	}
	if n.isDir {
		return fmt.Errorf("put %s: is a directory", name)
	}
	m.used += int64(len(data)) - int64(len(n.data))
	n.data, n.pending, n.doomed = slices.Clone(data), nil, 0
	for p := name; p != "/" && p != "."; p = path.Dir(p) {
		m.syncDirLocked(path.Dir(p))
	}
	return nil
}

// Flip inverts bits of the byte at off of a file, synced and visible at once.
func (m *FS) Flip(name string, off int64, mask byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(clean(name))
	if err != nil {
		return err
	}
	if off < 0 || off >= int64(len(n.data)) {
		return fmt.Errorf("flip %s: offset %d of %d", name, off, len(n.data))
	}
	n.data = slices.Clone(n.data)
	n.data[off] ^= mask
	return nil
}

// Truncate cuts a file to size bytes, synced and visible at once.
func (m *FS) Truncate(name string, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(clean(name))
	if err != nil {
		return err
	}
	if size < 0 || size > int64(len(n.data)) {
		return fmt.Errorf("truncate %s: size %d of %d", name, size, len(n.data))
	}
	m.used -= int64(len(n.data)) - size
	n.data, n.pending, n.doomed = slices.Clone(n.data[:size]), nil, 0
	return nil
}

// Files returns the paths of all files, sorted.
func (m *FS) Files() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name, d := range m.dirs {
		for entry, n := range d.names {
			if !n.isDir {
				out = append(out, path.Join(name, entry))
			}
		}
	}
	slices.Sort(out)
	return out
}
