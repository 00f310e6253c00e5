package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"tsdbd/internal/vfs"
)

// Errors of stores. Callers ask with errors.Is.
var (
	// ErrNotFound is returned for a name without an object.
	ErrNotFound = fs.ErrNotExist
	// ErrExists is returned by Put for a name that has an object.
	ErrExists = fs.ErrExist
	// ErrUnreachable is returned if the store does not answer, or answers that it cannot now.
	// The same call may succeed later. It may also have succeeded already.
	ErrUnreachable = errors.New("object store cannot be reached")
	// ErrRefused is returned if the store will not do it: the credentials are missing,
	// wrong, expired, or lack a right; the bucket does not exist; or what answers is no store.
	ErrRefused = errors.New("object store refuses")
)

// Info describes an object.
type Info struct {
	Name string
	Size int64
	// Age is how long ago the object was put, by the clock of the store. Only Stat sets it.
	Age time.Duration
	// SHA256 is what Put was given, in hex. Only Stat sets it, and only if the store
	// keeps it.
	SHA256 string
}

// Content is what Put stores: bytes, or a file if Path is set.
type Content struct {
	Bytes []byte
	// FS and Path name a file that is complete and synced. Once Put returns nil, the file
	// is gone, unless Keep is set. Then the object of it is durable.
	FS   vfs.FS
	Path string
	Keep bool
	// Pace is called before so many bytes are sent or copied, and may wait until ctx ends; nil:
	// never.
	Pace func(ctx context.Context, bytes int) error
	// SHA256 of the content in hex, if known. A store may compare it.
	SHA256 string
}

// Store keeps objects. Names are paths with slashes, without a slash at the beginning or
// the end.
type Store interface {
	// Put stores an object under a name that has none. Otherwise it returns ErrExists and
	// changes nothing. After an ErrUnreachable the object may be there.
	Put(ctx context.Context, name string, c Content) error
	// ReadRange returns length bytes of an object from offset on, or all up to the end if
	// length is negative. The reader returns io.ErrUnexpectedEOF if the object ends earlier.
	ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Stat returns ErrNotFound for a name that has no object.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the objects directly in a directory, in the order of their names. "" is
	// the top. A directory without objects need not exist.
	List(ctx context.Context, dir string) ([]Info, error)
	// Delete removes objects. A name without an object is no error.
	Delete(ctx context.Context, names ...string) error
}

// Read returns an object of at most limit bytes.
func Read(ctx context.Context, s Store, name string, limit int64) ([]byte, error) {
	r, err := s.ReadRange(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, limit)
	}
	return b, nil
}

// paced is a reader that calls pace before it reads.
type paced struct {
	ctx  context.Context
	pace func(ctx context.Context, bytes int) error
	io.Reader
}

// paceBytes is how much is read at most between two calls of Content.Pace.
const paceBytes = 64 << 10

// Paced returns a reader of r at the pace of the content.
func (c *Content) Paced(ctx context.Context, r io.Reader) io.Reader {
	if c.Pace == nil {
		return r
	}
	return &paced{ctx, c.Pace, r}
}

func (r *paced) Read(p []byte) (int, error) {
	p = p[:min(len(p), paceBytes)]
	if err := r.pace(r.ctx, len(p)); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Remaining returns a reader of the next n bytes of r. It returns
// io.ErrUnexpectedEOF if r ends earlier.
func Remaining(r io.Reader, n int64) io.Reader { return &remaining{r, n} }

type remaining struct {
	from io.Reader
	left int64
}

func (r *remaining) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err == io.EOF {
		err = nil
		if r.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}
