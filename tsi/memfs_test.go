package tsi

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tsdbd/internal/vfs"
)

var errInjected = errors.New("injected")

// memFS is a file system in memory whose mutating operations can be counted,
// failed, and stopped: after the n-th one nothing reaches the "disk".
type memFS struct {
	mu     sync.Mutex
	files  map[string]*memNode
	ops    int
	failAt int // the operation that fails, and all after it; 0 = none
}

type memNode struct{ data []byte }

func newMemFS() *memFS { return &memFS{files: map[string]*memNode{}} }

// clone copies the disk.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS()
	for n, f := range m.files {
		c.files[n] = &memNode{slices.Clone(f.data)}
	}
	return c
}

func (m *memFS) op() error {
	m.ops++
	if m.failAt > 0 && m.ops >= m.failAt {
		return errInjected
	}
	return nil
}

func (m *memFS) get(name string) []byte { return m.files[name].data }

func (m *memFS) put(name string, data []byte) { m.files[name] = &memNode{data} }

type memFile struct {
	fs   *memFS
	name string
	node *memNode
}

func (m *memFS) Create(name string) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op(); err != nil {
		return nil, err
	}
	n := &memNode{}
	m.files[name] = n
	return &memFile{m, name, n}, nil
}

func (m *memFS) Open(name string) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files[name]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memFile{m, name, n}, nil
}

func (m *memFS) OpenReadWrite(name string) (vfs.File, error) { return m.Open(name) }

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op(); err != nil {
		return err
	}
	m.files[to] = m.files[from]
	delete(m.files, from)
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op(); err != nil {
		return err
	}
	if m.files[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.files, name)
	return nil
}

func (m *memFS) RemoveAll(name string) error { return errors.ErrUnsupported }
func (m *memFS) MkdirAll(string) error       { return nil }

func (m *memFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for n := range m.files {
		if strings.HasPrefix(n, dir+"/") {
			out = append(out, path.Base(n))
		}
	}
	slices.Sort(out)
	return out, nil
}

type memInfo struct {
	name string
	size int64
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() os.FileMode  { return 0o600 }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return false }
func (i memInfo) Sys() any           { return nil }

func (m *memFS) Stat(name string) (os.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files[name]
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return memInfo{path.Base(name), int64(len(n.data))}, nil
}

func (m *memFS) SyncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.op()
}
func (m *memFS) Lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }
func (m *memFS) Free(string) (uint64, error)    { return 1 << 40, nil }

func (f *memFile) Close() error { return nil }

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) { return f.WriteAt(p, int64(len(f.node.data))) }

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.op(); err != nil {
		return 0, err
	}
	if need := off + int64(len(p)); need > int64(len(f.node.data)) {
		f.node.data = append(f.node.data, make([]byte, need-int64(len(f.node.data)))...)
	}
	return copy(f.node.data[off:], p), nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.fs.op()
}
func (f *memFile) SyncData() error { return f.Sync() }

func (f *memFile) Size() (int64, error) { return int64(len(f.node.data)), nil }

func (f *memFile) Map(size int64) ([]byte, func() error, error) {
	return slices.Clone(f.node.data[:size]), func() error { return nil }, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
