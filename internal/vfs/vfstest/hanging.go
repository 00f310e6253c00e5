package vfstest

import (
	"sync"

	"tsdbd/internal/vfs"
)

// Hanging is a file system on a disk that does not answer between Hang and Release:
// everything that changes it waits, as where a file system is frozen. Reads go on.
type Hanging struct {
	vfs.FS

	mu      sync.Mutex
	release chan struct{} // nil: it does not hang
	waiting int
}

// Hang begins to hang.
func (h *Hanging) Hang() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release == nil {
		h.release = make(chan struct{})
	}
}

// Release lets everything go on.
func (h *Hanging) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release != nil {
		close(h.release)
		h.release = nil
	}
}

// Waiting returns how many operations hang.
func (h *Hanging) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

func (h *Hanging) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	release := h.release
	if release == nil {
		return
	}
	h.waiting++
	h.mu.Unlock()
	<-release
	h.mu.Lock()
	h.waiting--
}

// open returns a file that hangs with h.
func (h *Hanging) open(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return hangingFile{f, h}, nil
}

// Create makes a file.
func (h *Hanging) Create(name string) (vfs.File, error) {
	h.wait()
	return h.open(h.FS.Create(name))
}

// OpenReadWrite opens a file.
func (h *Hanging) OpenReadWrite(name string) (vfs.File, error) {
	return h.open(h.FS.OpenReadWrite(name))
}

// Rename gives a file another name.
func (h *Hanging) Rename(from, to string) error {
	h.wait()
	return h.FS.Rename(from, to)
}

// Remove removes a file.
func (h *Hanging) Remove(name string) error {
	h.wait()
	return h.FS.Remove(name)
}

// RemoveAll removes a directory.
func (h *Hanging) RemoveAll(name string) error {
	h.wait()
	return h.FS.RemoveAll(name)
}

// MkdirAll makes a directory.
func (h *Hanging) MkdirAll(dir string) error {
	h.wait()
	return h.FS.MkdirAll(dir)
}

// SyncDir makes names durable.
func (h *Hanging) SyncDir(dir string) error {
	h.wait()
	return h.FS.SyncDir(dir)
}

// hangingFile is a file that is open for writing.
type hangingFile struct {
	vfs.File
	fs *Hanging
}

func (f hangingFile) Write(p []byte) (int, error) {
	f.fs.wait()
	return f.File.Write(p)
}

func (f hangingFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.wait()
	return f.File.WriteAt(p, off)
}

func (f hangingFile) Sync() error {
	f.fs.wait()
	return f.File.Sync()
}

func (f hangingFile) SyncData() error {
	f.fs.wait()
	return f.File.SyncData()
}
