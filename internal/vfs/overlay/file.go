package overlay

import (
	"errors"
	"io"

	"tsdbd/internal/vfs"
)

// Part is a file of the base that is a part of a file.
type Part struct {
	Path string
	Size int64
}

// file is a file of an FS: parts of the base, and data behind them. The first
// write to a part reads all parts into data.
type file struct {
	fs    *FS
	parts []Part
	data  []byte
}

// size is called with the lock held.
func (f *file) size() int64 {
	n := int64(len(f.data))
	for _, p := range f.parts {
		n += p.Size
	}
	return n
}

// handle is an open file. It keeps the parts that it has read open.
type handle struct {
	*file
	open map[string]vfs.File
}

func (h *handle) part(name string) (vfs.File, error) {
	if f := h.open[name]; f != nil {
		return f, nil
	}
	f, err := h.fs.base.Open(name)
	if err != nil {
		return nil, err
	}
	if h.open == nil {
		h.open = map[string]vfs.File{}
	}
	h.open[name] = f
	return f, nil
}

func (h *handle) Close() (err error) {
	for _, f := range h.open {
		err = errors.Join(err, f.Close())
	}
	h.open = nil
	return err
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.read(p, off)
}

// read is ReadAt with the lock held.
func (h *handle) read(p []byte, off int64) (n int, err error) {
	for _, part := range h.parts {
		if off >= part.Size {
			off -= part.Size
			continue
		}
		if n == len(p) {
			return n, nil
		}
		want := p[n : n+int(min(int64(len(p)-n), part.Size-off))]
		f, err := h.part(part.Path)
		if err != nil {
			return n, err
		}
		k, err := f.ReadAt(want, off)
		if n += k; k < len(want) {
			return n, err
		}
		off = 0
	}
	if off < int64(len(h.data)) {
		n += copy(p[n:], h.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) Write(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.data = append(h.data, p...)
	return len(p), nil
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	behind := h.size() - int64(len(h.data))
	if off < behind {
		whole := make([]byte, h.size())
		if n, err := h.read(whole, 0); n < len(whole) {
			return 0, err
		}
		h.parts, h.data, behind = nil, whole, 0
	}
	off -= behind
	if end := off + int64(len(p)); end > int64(len(h.data)) {
		h.data = append(h.data, make([]byte, end-int64(len(h.data)))...)
	}
	return copy(h.data[off:], p), nil
}

func (h *handle) Sync() error     { return nil }
func (h *handle) SyncData() error { return nil }

func (h *handle) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.size(), nil
}

// Map maps a file that is one part, and reads others.
func (h *handle) Map(size int64) ([]byte, func() error, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if len(h.parts) == 1 && len(h.data) == 0 {
		f, err := h.part(h.parts[0].Path)
		if err != nil {
			return nil, nil, err
		}
		return f.Map(size)
	}
	b := make([]byte, size)
	if n, err := h.read(b, 0); int64(n) < size {
		return nil, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return b, func() error { return nil }, nil
}
