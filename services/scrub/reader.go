package scrub

import (
	"context"
	"sync/atomic"
	"time"

	"tsdbd/internal/vfs"
)

// slice is how much is read at once.
const slice = 1 << 20

// pacer limits the rate of reads. One goroutine uses it; others may load read.
type pacer struct {
	rate  func() int64 // bytes a second; 0: no bound
	sleep func(ctx context.Context, d time.Duration)
	read  atomic.Int64 // bytes, since the start
	owed  int64        // bytes read since the last sleep
}

// pace counts bytes that are about to be read, and waits after each slice. It returns the
// error of ctx.
func (p *pacer) pace(ctx context.Context, bytes int) error {
	p.read.Add(int64(bytes))
	p.owed += int64(bytes)
	for p.owed >= slice && ctx.Err() == nil {
		rate := p.rate()
		if rate == 0 {
			p.owed = 0
			break
		}
		// Not longer than a second at a time: Start may end the bound meanwhile.
		n := min(p.owed, rate)
		p.sleep(ctx, time.Duration(float64(n)/float64(rate)*float64(time.Second)))
		p.owed -= n
	}
	return ctx.Err()
}

// pacedFS is a file system whose files are read at the rate of a pacer, and past the
// cache of the system.
type pacedFS struct {
	vfs.FS
	pace func(bytes int) error
}

// Open opens a file.
func (f pacedFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return pacedFile{file, f.pace}, nil
}

type pacedFile struct {
	vfs.File
	pace func(bytes int) error
}

// ReadAt reads when it may.
func (f pacedFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.pace(len(b)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// Close closes the file.
func (f pacedFile) Close() error {
	vfs.Uncache(f.File)
	return f.File.Close()
}
