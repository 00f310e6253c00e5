package wal

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tsdbd/internal/vfs"
)

// memFS is a file system in memory that knows what a power failure may take:
// writes since the file's last sync, sector by sector, and names since the
// directory's last sync.
type memFS struct {
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode
	pending map[string][]nameOp // by directory
	// fail is asked before every operation that changes something, with the
	// mutex held.
	fail func(op, name string) error
	// capacity bounds the bytes in all files, 0: unbounded. With cow set an
	// overwrite needs space as well, for the time until used is lowered.
	capacity int64
	cow      bool
	extra    int64
}

type inode struct {
	name    string // present name, for fail
	data    []byte
	synced  []byte
	pending []memWrite
}

type memWrite struct {
	off  int64
	data []byte
}

type nameOp struct {
	from, to string // create: from "", remove: to ""
	node     *inode
}

const sector = 512

func newMemFS() *memFS {
	return &memFS{names: map[string]*inode{}, durable: map[string]*inode{}, pending: map[string][]nameOp{}}
}

func (m *memFS) check(op, name string) error {
	if m.fail != nil {
		return m.fail(op, name)
	}
	return nil
}

func (m *memFS) used() int64 {
	n := m.extra
	for _, f := range m.names {
		n += int64(len(f.data))
	}
	return n
}

// crash returns the file system as a power failure may leave it: each unsynced
// sector survives with probability keep, and a prefix of the unsynced name
// operations of each directory.
func (m *memFS) crash(rng *rand.Rand, keep float64) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS()
	nodes := map[*inode]*inode{}
	clone := func(f *inode) *inode {
		if n, ok := nodes[f]; ok {
			return n
		}
		data := slices.Clone(f.synced)
		for _, w := range f.pending {
			for at := 0; at < len(w.data); {
				n := min(len(w.data)-at, sector-int(w.off+int64(at))%sector)
				if rng.Float64() < keep {
					end := int(w.off) + at + n
					if end > len(data) {
						data = append(data, make([]byte, end-len(data))...)
					}
					copy(data[int(w.off)+at:], w.data[at:at+n])
				}
				at += n
			}
		}
		n := &inode{data: data, synced: slices.Clone(data)}
		nodes[f] = n
		return n
	}
	for name, f := range m.durable {
		c.names[name] = clone(f)
	}
	for _, ops := range m.pending {
		n := 0
		switch {
		case keep >= 1:
			n = len(ops)
		case keep > 0:
			n = rng.IntN(len(ops) + 1)
		}
		for _, op := range ops[:n] {
			if op.from != "" {
				delete(c.names, op.from)
			}
			if op.to != "" {
				c.names[op.to] = clone(op.node)
			}
		}
	}
	for name, f := range c.names {
		c.durable[name], f.name = f, name
	}
	return c
}

// clone returns an independent copy as it is now, everything durable.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS()
	for name, f := range m.names {
		n := &inode{name: name, data: slices.Clone(f.data), synced: slices.Clone(f.data)}
		c.names[name], c.durable[name] = n, n
	}
	return c
}

func (m *memFS) nameOp(dir string, op nameOp) { m.pending[dir] = append(m.pending[dir], op) }

func (m *memFS) Create(name string) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("create", name); err != nil {
		return nil, err
	}
	f := &inode{name: name}
	m.names[name] = f
	m.nameOp(path.Dir(name), nameOp{to: name, node: f})
	return &memFile{fs: m, node: f}, nil
}

func (m *memFS) open(name string) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("open", name); err != nil {
		return nil, err
	}
	f := m.names[name]
	if f == nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	return &memFile{fs: m, node: f}, nil
}

func (m *memFS) Open(name string) (vfs.File, error)          { return m.open(name) }
func (m *memFS) OpenReadWrite(name string) (vfs.File, error) { return m.open(name) }

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("rename", from); err != nil {
		return err
	}
	f := m.names[from]
	if f == nil {
		return os.ErrNotExist
	}
	delete(m.names, from)
	m.names[to], f.name = f, to
	m.nameOp(path.Dir(to), nameOp{from: from, to: to, node: f})
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("remove", name); err != nil {
		return err
	}
	if m.names[name] == nil {
		return os.ErrNotExist
	}
	delete(m.names, name)
	m.nameOp(path.Dir(name), nameOp{from: name})
	return nil
}

func (m *memFS) RemoveAll(string) error { return errors.ErrUnsupported }
func (m *memFS) MkdirAll(string) error  { return nil }

func (m *memFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.names {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
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
	f := m.names[name]
	if f == nil {
		for file := range m.names {
			if path.Dir(file) == name {
				return memInfo{path.Base(name), 0}, nil
			}
		}
		return nil, os.ErrNotExist
	}
	return memInfo{path.Base(name), int64(len(f.data))}, nil
}

func (m *memFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("syncdir", dir); err != nil {
		return err
	}
	for _, op := range m.pending[dir] {
		if op.from != "" {
			delete(m.durable, op.from)
		}
		if op.to != "" {
			m.durable[op.to] = op.node
		}
	}
	m.pending[dir] = nil
	return nil
}

func (m *memFS) Lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }

func (m *memFS) Free(string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.capacity == 0 {
		return 1 << 40, nil
	}
	return uint64(max(0, m.capacity-m.used())), nil
}

type memFile struct {
	fs   *memFS
	node *inode
}

func (f *memFile) Close() error { return nil }

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	off := int64(len(f.node.data))
	f.fs.mu.Unlock()
	return f.WriteAt(b, off)
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	failure := f.fs.check("write", f.node.name)
	if failure != nil && !errors.Is(failure, errShort) {
		return 0, failure
	}
	if failure != nil {
		b = b[:len(b)/2]
		failure = syscall.ENOSPC
	}
	need := max(0, off+int64(len(b))-int64(len(f.node.data)))
	if f.fs.cow {
		need = int64(len(b))
	}
	if f.fs.capacity > 0 {
		if free := max(0, f.fs.capacity-f.fs.used()); need > free {
			b, failure = b[:max(0, int64(len(b))-(need-free))], syscall.ENOSPC
		}
	}
	if end := off + int64(len(b)); end > int64(len(f.node.data)) {
		f.node.data = append(f.node.data, make([]byte, end-int64(len(f.node.data)))...)
	}
	copy(f.node.data[off:], b)
	f.node.pending = append(f.node.pending, memWrite{off, slices.Clone(b)})
	return len(b), failure
}

// errShort makes a write stop in the middle, out of space.
var errShort = errors.New("short write")

func (f *memFile) SyncData() error { return f.Sync() }

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.check("sync", f.node.name); err != nil {
		return err
	}
	// Replay the writes instead of copying the file: segments are large.
	for _, w := range f.node.pending {
		if end := int(w.off) + len(w.data); end > len(f.node.synced) {
			f.node.synced = append(f.node.synced, make([]byte, end-len(f.node.synced))...)
		}
		copy(f.node.synced[w.off:], w.data)
	}
	f.node.pending = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *memFile) Map(int64) ([]byte, func() error, error) { return nil, nil, errors.ErrUnsupported }

// segments returns the paths of the segment files.
func (m *memFS) segments() []string {
	var out []string
	names, _ := m.List("w")
	for _, n := range names {
		if strings.HasSuffix(n, segmentSuffix) {
			out = append(out, path.Join("w", n))
		}
	}
	return out
}
