// Package vfstest is a file system in memory that can be crashed, failed and
// filled at any operation. It keeps apart what was synced and what was not:
// Crash returns the file system as a power cut at this moment could leave it.
//
// The model is harsher than a journalling file system. Of the writes to a file
// since its last sync each is kept, lost, torn at any byte or kept in some of
// its sectors, independently; of the creations, renames and removals in a
// directory since its last sync each is kept or lost, in order per name. A
// rename is atomic. What a failed sync of a file was to make durable, no later
// sync does: the operating system has forgotten that it was dirty.
package vfstest

import (
	"fmt"
	"io/fs"
	"maps"
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

// Op describes a mutating operation before it takes place.
type Op struct {
	N    int    // 1, 2, 3 ... since the file system was made
	Kind string // create, write, sync, rename, remove, removeall, mkdir, syncdir
	Path string // of a write or sync: the file's present name
	Size int    // bytes of a write
}

// ShortWrite is an error for a hook to answer a write with: the write stops
// after Bytes bytes and fails with Err. Other operations fail as with any
// error.
type ShortWrite struct {
	Bytes int
	Err   error
}

// Error reports the bytes written.
func (s *ShortWrite) Error() string {
	return fmt.Sprintf("short write of %d bytes: %v", s.Bytes, s.Err)
}

// Unwrap returns Err.
func (s *ShortWrite) Unwrap() error { return s.Err }

// FS is the file system. It is safe for concurrent use.
type FS struct {
	mu     sync.Mutex
	dirs   map[string]*dir
	buried map[string]*dir // removed directories that a crash may bring back
	locked map[string]bool
	ops    int
	hook   func(Op) error
	reads  func(kind, path string) error
	used   int64
	limit  int64 // bytes of all files, 0: none
}

type dir struct {
	names   map[string]*inode // as programs see it
	durable map[string]*inode // as of the last SyncDir
	pending []change
}

// change is an unsynced change of a directory: from goes (if not ""), to
// appears with node (if not "").
type change struct {
	from, to string
	node     *inode
}

type inode struct {
	name    string // present path, for Op
	data    []byte
	pending []patch // since the last sync
	doomed  int     // of the first of pending: a sync of them failed, and no later one makes them durable
	isDir   bool
}

// sector is what a disk writes whole or not at all.
const sector = 512

// patch is an unsynced write.
type patch struct {
	off      int64
	data     []byte
	truncate bool   // the file became empty; data is nil
	before   []byte // what data replaced
	size     int64  // of the file before
	durable  bool   // synced, and pending only for the doomed before it
}

// New returns an empty file system.
func New() *FS {
	return &FS{dirs: map[string]*dir{"/": newDir(), ".": newDir()}, buried: map[string]*dir{}, locked: map[string]bool{}}
}

func newDir() *dir {
	return &dir{names: map[string]*inode{}, durable: map[string]*inode{}}
}

// SetHook calls f before every mutating operation, one at a time; an error it
// returns is the operation's result, which then changes nothing but by a
// *ShortWrite. f may call Crash, but no other method.
func (m *FS) SetHook(f func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = f
}

// FailFrom sets a hook that fails the n-th mutating operation from now, counted
// from 0, and all behind it with err. ops returns how many there were.
func (m *FS) FailFrom(n int, err error) (ops func() int) {
	start := m.Ops()
	m.SetHook(func(op Op) error {
		if op.N-start >= n {
			return err
		}
		return nil
	})
	return func() int { return m.Ops() - start }
}

// SetReadHook calls f before every operation that reads: open, read, map, stat
// and list. An error it returns is the operation's result. f may call no method
// of m.
func (m *FS) SetReadHook(f func(kind, path string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads = f
}

func (m *FS) readLocked(kind, name string) error {
	if m.reads == nil {
		return nil
	}
	if err := m.reads(kind, name); err != nil {
		return &fs.PathError{Op: kind, Path: name, Err: err}
	}
	return nil
}

// SetLimit makes writes beyond n bytes in all files stop where the space ends
// and fail with ENOSPC; 0 lifts the limit.
func (m *FS) SetLimit(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = n
}

// Ops returns how many mutating operations were begun.
func (m *FS) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

func (m *FS) beginLocked(kind, name string, size int) error {
	m.ops++
	if m.hook == nil {
		return nil
	}
	if err := m.hook(Op{m.ops, kind, name, size}); err != nil {
		return &fs.PathError{Op: kind, Path: name, Err: err}
	}
	return nil
}

// Crash returns what a power cut now could leave. keep is the chance that an
// unsynced change survives: 0 none, 1 all. It may be called from a hook.
func (m *FS) Crash(r *rand.Rand, keep float64) *FS {
	out := New()
	nodes := map[*inode]*inode{}
	all := maps.Clone(m.buried)
	maps.Copy(all, m.dirs)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		entries := maps.Clone(d.durable)
		lost := map[string]bool{}
		for _, c := range d.pending {
			// A lost change of a name loses the later ones of it too.
			if lose(r, keep) || lost[c.from] && c.from != "" || lost[c.to] && c.to != "" {
				lost[c.from], lost[c.to] = true, true
				continue
			}
			if c.from != "" {
				delete(entries, c.from)
			}
			if c.to != "" {
				entries[c.to] = c.node
			}
		}
		nd := newDir()
		for _, entry := range slices.Sorted(maps.Keys(entries)) {
			n := entries[entry]
			if nodes[n] == nil {
				nodes[n] = n.crash(r, keep)
				nodes[n].name = path.Join(name, entry)
			}
			nd.names[entry] = nodes[n]
		}
		nd.durable = maps.Clone(nd.names)
		out.dirs[name] = nd
	}
	// A directory without its own entry in the parent is gone.
	for changed := true; changed; {
		changed = false
		for name := range out.dirs {
			if name == "/" || name == "." {
				continue
			}
			parent := out.dirs[path.Dir(name)]
			if parent == nil || parent.names[path.Base(name)] == nil {
				delete(out.dirs, name)
				changed = true
			}
		}
	}
	for name, d := range maps.Clone(out.dirs) {
		for entry, n := range d.names {
			if p := path.Join(name, entry); n.isDir && out.dirs[p] == nil {
				out.dirs[p] = newDir()
			}
			out.used += int64(len(n.data))
		}
	}
	return out
}

// lose tells whether a change is lost. Where all is kept, r may be nil.
func lose(r *rand.Rand, keep float64) bool { return keep < 1 && r.Float64() >= keep }

// CrashLocked is Crash for a caller outside hooks, while others use m.
func (m *FS) CrashLocked(r *rand.Rand, keep float64) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Crash(r, keep)
}

// crash returns the inode with a random part of its unsynced writes.
func (n *inode) crash(r *rand.Rand, keep float64) *inode {
	out := &inode{isDir: n.isDir}
	base := slices.Clone(n.data)
	for i := len(n.pending) - 1; i >= 0; i-- {
		p := &n.pending[i]
		if p.truncate {
			base = slices.Clone(p.before)
			continue
		}
		copy(base[min(p.off, int64(len(base))):], p.before)
		base = base[:min(p.size, int64(len(base)))]
	}
	for i := range n.pending {
		p := &n.pending[i]
		if !p.durable && lose(r, keep) {
			continue
		}
		if p.truncate {
			base = nil
			continue
		}
		if keep >= 1 || p.durable {
			base = overlay(base, p.off, p.data)
			continue
		}
		switch r.IntN(4) {
		case 0:
			base = overlay(base, p.off, p.data[:r.IntN(len(p.data)+1)])
		case 1:
			for at := 0; at < len(p.data); {
				n := min(sector-int((p.off+int64(at))%sector), len(p.data)-at)
				if r.IntN(2) == 0 {
					base = overlay(base, p.off+int64(at), p.data[at:at+n])
				}
				at += n
			}
		default:
			base = overlay(base, p.off, p.data)
		}
	}
	out.data = base
	return out
}

// overlay writes data at off; what was not written of a file that grew reads
// as zeros.
func overlay(base []byte, off int64, data []byte) []byte {
	if end := int(off) + len(data); len(data) > 0 && end > len(base) {
		base = append(base, make([]byte, end-len(base))...)
	}
	copy(base[min(int(off), len(base)):], data)
	return base
}

func clean(name string) string { return path.Clean(name) }

func (m *FS) lookupLocked(name string) (*inode, error) {
	d := m.dirs[path.Dir(name)]
	if d == nil || d.names[path.Base(name)] == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return d.names[path.Base(name)], nil
}

// Create implements vfs.FS.
func (m *FS) Create(name string) (vfs.File, error) {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("create", name, 0); err != nil {
		return nil, err
	}
	d := m.dirs[path.Dir(name)]
	if d == nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrNotExist}
	}
	base := path.Base(name)
	n := d.names[base]
	if n == nil {
		n = &inode{name: name}
		d.names[base] = n
		d.pending = append(d.pending, change{to: base, node: n})
	} else {
		m.used -= int64(len(n.data))
		n.pending = append(n.pending, patch{truncate: true, before: n.data})
		n.data = nil
	}
	return &file{fs: m, node: n, writable: true}, nil
}

// Open implements vfs.FS.
func (m *FS) Open(name string) (vfs.File, error) { return m.open(name, false) }

// OpenReadWrite implements vfs.FS.
func (m *FS) OpenReadWrite(name string) (vfs.File, error) { return m.open(name, true) }

func (m *FS) open(name string, writable bool) (vfs.File, error) {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(name)
	if err == nil {
		err = m.readLocked("open", name)
	}
	if err != nil {
		return nil, err
	}
	if n.isDir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return &file{fs: m, node: n, writable: writable}, nil
}

// Rename implements vfs.FS. Between two directories each keeps its half: a
// crash may show both names, or none. A directory moves with all that is in it,
// to a name that does not exist.
func (m *FS) Rename(from, to string) error {
	from, to = clean(from), clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("rename", to, 0); err != nil {
		return err
	}
	n, err := m.lookupLocked(from)
	if err != nil {
		return err
	}
	old, d := m.dirs[path.Dir(from)], m.dirs[path.Dir(to)]
	if d == nil || n.isDir && d.names[path.Base(to)] != nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrNotExist}
	}
	if over := d.names[path.Base(to)]; over != nil && over != n {
		m.used -= int64(len(over.data))
	}
	delete(old.names, path.Base(from))
	d.names[path.Base(to)] = n
	n.name = to
	for sub, moved := range maps.Clone(m.dirs) {
		if rest, ok := strings.CutPrefix(sub+"/", from+"/"); ok && n.isDir {
			m.buried[sub] = moved // a crash may undo it
			delete(m.dirs, sub)
			m.dirs[path.Join(to, rest)] = moved
		}
	}
	if old == d {
		d.pending = append(d.pending, change{from: path.Base(from), to: path.Base(to), node: n})
	} else {
		old.pending = append(old.pending, change{from: path.Base(from)})
		d.pending = append(d.pending, change{to: path.Base(to), node: n})
	}
	return nil
}

// Link gives a file a second name, as vfs.Link asks for. Both names share the content
// and what of it was synced.
func (m *FS) Link(from, to string) error {
	from, to = clean(from), clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("link", to, 0); err != nil {
		return err
	}
	n, err := m.lookupLocked(from)
	if err != nil {
		return err
	}
	d := m.dirs[path.Dir(to)]
	if d == nil || n.isDir || d.names[path.Base(to)] != nil {
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	m.used += int64(len(n.data))
	d.names[path.Base(to)] = n
	d.pending = append(d.pending, change{to: path.Base(to), node: n})
	return nil
}

// Remove implements vfs.FS.
func (m *FS) Remove(name string) error {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("remove", name, 0); err != nil {
		return err
	}
	if _, err := m.lookupLocked(name); err != nil {
		return err
	}
	m.removeLocked(name)
	return nil
}

func (m *FS) removeLocked(name string) {
	d := m.dirs[path.Dir(name)]
	if n := d.names[path.Base(name)]; n != nil {
		m.used -= int64(len(n.data))
	}
	delete(d.names, path.Base(name))
	d.pending = append(d.pending, change{from: path.Base(name)})
}

// RemoveAll implements vfs.FS.
func (m *FS) RemoveAll(name string) error {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("removeall", name, 0); err != nil {
		return err
	}
	if _, err := m.lookupLocked(name); err != nil {
		return nil
	}
	for sub, d := range m.dirs {
		if sub == name || len(sub) > len(name) && sub[:len(name)+1] == name+"/" {
			for _, n := range d.names {
				m.used -= int64(len(n.data))
			}
			m.buried[sub] = d
			delete(m.dirs, sub)
		}
	}
	m.removeLocked(name)
	return nil
}

// MkdirAll implements vfs.FS.
func (m *FS) MkdirAll(name string) error {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirs[name] != nil {
		return nil
	}
	if err := m.beginLocked("mkdir", name, 0); err != nil {
		return err
	}
	return m.mkdirAllLocked(name)
}

func (m *FS) mkdirAllLocked(name string) error {
	// Make and link every missing directory, outermost first.
	var missing []string
	for p := name; p != "/" && p != "."; p = path.Dir(p) {
		missing = append(missing, p)
	}
	for _, p := range slices.Backward(missing) {
		if n, err := m.lookupLocked(p); err == nil && !n.isDir {
			return &fs.PathError{Op: "mkdir", Path: p, Err: syscall.ENOTDIR}
		}
		if m.dirs[p] == nil {
			m.dirs[p] = newDir()
		}
		parent := m.dirs[path.Dir(p)]
		if parent.names[path.Base(p)] == nil {
			n := &inode{isDir: true}
			parent.names[path.Base(p)] = n
			parent.pending = append(parent.pending, change{to: path.Base(p), node: n})
		}
	}
	return nil
}

// List implements vfs.FS.
func (m *FS) List(name string) ([]string, error) {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dirs[name]
	if d == nil {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
	}
	if err := m.readLocked("list", name); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(d.names)), nil
}

// Stat implements vfs.FS.
func (m *FS) Stat(name string) (os.FileInfo, error) {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(name)
	if err == nil {
		err = m.readLocked("stat", name)
	}
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), int64(len(n.data)), n.isDir}, nil
}

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o600 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

// SyncDir implements vfs.FS.
func (m *FS) SyncDir(name string) error {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("syncdir", name, 0); err != nil {
		return err
	}
	if m.dirs[name] == nil {
		return &fs.PathError{Op: "syncdir", Path: name, Err: fs.ErrNotExist}
	}
	m.syncDirLocked(name)
	return nil
}

func (m *FS) syncDirLocked(name string) {
	d := m.dirs[name]
	d.durable, d.pending = maps.Clone(d.names), nil
	for sub := range m.buried {
		if path.Dir(sub) == name {
			for deep := range m.buried {
				if deep == sub || strings.HasPrefix(deep, sub+"/") {
					delete(m.buried, deep)
				}
			}
		}
	}
}

// Lock implements vfs.FS.
func (m *FS) Lock(name string) (vfs.Lock, error) {
	name = clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] {
		return nil, fmt.Errorf("lock %s: %w", name, vfs.ErrLocked)
	}
	m.locked[name] = true
	return unlocker{m, name}, nil
}

type unlocker struct {
	m    *FS
	name string
}

func (u unlocker) Held() error { return nil }

func (u unlocker) Close() error {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	delete(u.m.locked, u.name)
	return nil
}

// Free implements vfs.FS.
func (m *FS) Free(string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit == 0 {
		return 1 << 40, nil
	}
	return uint64(max(m.limit-m.used, 0)), nil
}
