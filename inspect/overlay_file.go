package inspect

import (
	"errors"
	"io"

	"tsdbd/internal/vfs"
)

// overlayPage is the unit in which written bytes are kept.
const overlayPage = 4096

// overlayFile is a file of an Overlay: pieces of the base, and over them the
// pages that were written. Fields are guarded by the overlay's mutex.
type overlayFile struct {
	fs    *Overlay
	name  string
	size  int64
	parts []Part
	pages map[int64][]byte
}

// readPartsLocked fills p with what the base has at off, zeros behind it.
func (f *overlayFile) readPartsLocked(p []byte, off int64, open func(string) (vfs.File, error)) error {
	clear(p)
	for _, part := range f.parts {
		if len(p) == 0 {
			return nil
		}
		if off >= part.Size {
			off -= part.Size
			continue
		}
		n := int(min(int64(len(p)), part.Size-off))
		src, err := open(part.Path)
		if err != nil {
			return err
		}
		if _, err := src.ReadAt(p[:n], off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		p, off = p[n:], 0
	}
	return nil
}

func (f *overlayFile) writeLocked(p []byte, off int64) {
	if f.pages == nil {
		f.pages = map[int64][]byte{}
	}
	f.size = max(f.size, off+int64(len(p)))
	for len(p) > 0 {
		page, at := off/overlayPage, int(off%overlayPage)
		b := f.pages[page]
		if b == nil {
			b = make([]byte, overlayPage)
			if f.parts != nil {
				h := overlayHandle{overlayFile: f}
				_ = f.readPartsLocked(b, page*overlayPage, h.part)
				_ = h.Close()
			}
			f.pages[page] = b
		}
		n := copy(b[at:], p)
		p, off = p[n:], off+int64(n)
	}
}

// overlayHandle is an open overlayFile. It keeps the pieces of the base open.
type overlayHandle struct {
	*overlayFile
	open map[string]vfs.File
}

func (h *overlayHandle) part(name string) (vfs.File, error) {
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

func (h *overlayHandle) Close() error {
	var errs []error
	for _, f := range h.open {
		errs = append(errs, f.Close())
	}
	h.open = nil
	return errors.Join(errs...)
}

func (h *overlayHandle) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.readLocked(p, off)
}

func (h *overlayHandle) readLocked(p []byte, off int64) (n int, err error) {
	if off >= h.size {
		return 0, io.EOF
	}
	if rest := h.size - off; int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	if rerr := h.readPartsLocked(p, off, h.part); rerr != nil {
		return 0, rerr
	}
	if len(h.pages) > 0 {
		for at := int64(0); at < int64(len(p)); {
			page, in := (off+at)/overlayPage, (off+at)%overlayPage
			n := min(overlayPage-in, int64(len(p))-at)
			if b := h.pages[page]; b != nil {
				copy(p[at:at+n], b[in:])
			}
			at += n
		}
	}
	return len(p), err
}

func (h *overlayHandle) Write(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.writeLocked(p, h.size)
	return len(p), nil
}

func (h *overlayHandle) WriteAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.writeLocked(p, off)
	return len(p), nil
}

func (h *overlayHandle) Sync() error     { return nil }
func (h *overlayHandle) SyncData() error { return nil }

func (h *overlayHandle) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.size, nil
}

// Map maps a file that is one untouched piece of the base, and reads others.
func (h *overlayHandle) Map(size int64) ([]byte, func() error, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if len(h.parts) == 1 && len(h.pages) == 0 {
		f, err := h.part(h.parts[0].Path)
		if err != nil {
			return nil, nil, err
		}
		return f.Map(size)
	}
	b := make([]byte, size)
	if n, err := h.readLocked(b, 0); int64(n) < size {
		return nil, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return b, func() error { return nil }, nil
}
