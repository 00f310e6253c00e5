package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"tsdbd/internal/object"
)

// ReadRange implements object.Store.
func (s *Store) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r := &reader{s: s, ctx: ctx, name: name, at: offset, end: -1}
	if length >= 0 {
		r.end = offset + length
	}
	if length == 0 {
		return r, nil
	}
	return r, s.try(ctx, "read", name, func(context.Context, func()) error { return r.open() })
}

// reader reads a range of an object. If the connection breaks, it continues where it was.
type reader struct {
	s       *Store
	ctx     context.Context
	name    string
	at, end int64  // end is -1 until it is known
	short   bool   // the object ends before what was asked for
	etag    string // of the object that is read
	body    io.ReadCloser
	watch   *watch // of the body
}

// open asks for what is left. It is called by try, but its request lives on.
func (r *reader) open() error {
	var opt minio.GetObjectOptions
	switch {
	case r.end >= 0:
		opt.Set("Range", fmt.Sprintf("bytes=%d-%d", r.at, r.end-1))
	case r.at > 0:
		opt.Set("Range", fmt.Sprintf("bytes=%d-", r.at))
	}
	w := newWatch(r.ctx, r.s.opt.Stall)
	body, info, header, err := r.s.core.GetObject(w.ctx, r.s.opt.Bucket, r.s.key(r.name), opt)
	if err == nil && opt.Header().Get("Range") != "" && !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", r.at)) {
		err = errors.Join(fmt.Errorf("%w: it does not send parts of objects", object.ErrRefused), body.Close())
	}
	if err == nil && r.etag != "" && info.ETag != r.etag {
		err = errors.Join(fmt.Errorf("%w: the object was replaced while it was read", object.ErrRefused), body.Close())
	}
	if err != nil {
		w.stop()
		return w.cause(err)
	}
	switch {
	case r.end < 0:
		r.end = r.at + info.Size
	case r.at+info.Size < r.end:
		r.end, r.short = r.at+info.Size, true
	case r.at+info.Size > r.end:
		w.stop()
		return errors.Join(fmt.Errorf("%w: it sends %d bytes, asked for %d", object.ErrRefused, info.Size, r.end-r.at), body.Close())
	}
	r.body, r.watch, r.etag = body, w, info.ETag
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	for begin, wait := time.Now(), firstWait; ; {
		if r.at == r.end || r.end < 0 {
			if r.short {
				return 0, r.s.failure("read", r.name, io.ErrUnexpectedEOF, fmt.Sprintf("it has %d bytes", r.end))
			}
			return 0, io.EOF
		}
		if r.body == nil {
			if err := r.s.try(r.ctx, "read", r.name, func(context.Context, func()) error { return r.open() }); err != nil {
				return 0, err
			}
			continue // it may have less than it had
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.end-r.at)])
		r.at += int64(n)
		if n > 0 {
			r.watch.moved()
			return n, nil // the error comes again
		}
		if err == nil {
			continue
		}
		err = r.watch.cause(err)
		_ = r.Close()
		if r.ctx.Err() != nil {
			return 0, r.ctx.Err()
		}
		if time.Since(begin)+wait > r.s.opt.Patience {
			return 0, r.s.failure("read", r.name, object.ErrUnreachable, err.Error())
		}
		if wait, err = pause(r.ctx, wait); err != nil {
			return 0, err
		}
	}
}

// Close ends the request. Read would begin another one.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	r.watch.stop()
	err := r.body.Close()
	r.body = nil
	if errors.Is(err, http.ErrBodyReadAfterClose) || errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}
