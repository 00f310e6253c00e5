package coldcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
)

const (
	// rangeBytes is the unit of what is fetched and kept.
	rangeBytes = 1 << 20
	// maxMapped bounds the range files that are mapped: systems bound the mappings of a process.
	maxMapped = 4 << 10
	// maxRun bounds the ranges that one request fetches.
	maxRun = 4
	// A reader that has walked through aheadAfter ranges has the next one fetched, and one
	// more for each aheadAfter ranges. Fewer would fetch too much for one chunk: its body
	// may be in two ranges, and its times in the one before.
	aheadAfter = 3

	defaultSize     = 10 << 30
	defaultTimeout  = 30 * time.Second
	defaultParallel = 8
)

// ErrUnreachable is returned if the store did not give a range: it does not answer, it
// refuses, or the object is not there. The same read may succeed later: it has a method
// Temporary, which makes servers answer that.
var ErrUnreachable error = unreachable{}

type unreachable struct{}

func (unreachable) Error() string { return "cold storage unreachable" }

func (unreachable) Temporary() bool { return true }

var errClosed = errors.New("the cache is closed")

// Options configure a Cache. Dir and Store are needed.
type Options struct {
	FS    vfs.FS // default vfs.OS
	Dir   string // is made if it does not exist
	Size  int64  // most bytes of the range files; default 10 GiB, at least 2 ranges for each of Parallel
	Store object.Store
	// Timeout bounds how long a fetch tries, all attempts together. Default 30 s. A store
	// that tries again itself should give up far earlier: its reason is what readers are told.
	Timeout  time.Duration
	Parallel int          // most requests at a time, and so MiB of memory; default 8
	Logger   *slog.Logger // default: none
}

// Cache keeps ranges of objects on a disk.
type Cache struct {
	opt      Options
	ctx      context.Context
	stop     context.CancelFunc
	runs     sync.WaitGroup
	free     chan *buffer // buffers that no run has
	number   atomic.Uint64
	table    table
	clock    clock
	mappings mappings
	warned   atomic.Int64 // when a failing disk was logged last
	count    struct {
		hits, misses, gets, bytes, evictions, errors atomic.Int64
	}
}

// Stats are counts since Open, and what is cached now.
type Stats struct {
	Hits, Misses int64 // ranges that reads found, and that they had to wait for
	Gets         int64 // requests to the store
	BytesFetched int64
	BytesCached  int64 // of range files
	Evictions    int64
	Errors       int64 // requests that failed, also if the next one succeeded
}

// Open opens the cache in a directory, with what an earlier one has left there.
func Open(opt Options) (*Cache, error) {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Timeout <= 0 {
		opt.Timeout = defaultTimeout
	}
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Size <= 0 {
		opt.Size = defaultSize
	}
	opt.Size = max(opt.Size, 2*int64(opt.Parallel)*fileBytes)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cache{opt: opt, free: make(chan *buffer, opt.Parallel)}
	for range opt.Parallel {
		c.free <- new(buffer)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("open cold cache %s: %w", opt.Dir, err)
	}
	return c, nil
}

// Close ends all fetches and unmaps all files, which stay for the next Open.
func (c *Cache) Close() error {
	c.stop()
	c.runs.Wait()
	var errs []error
	for _, e := range c.table.all() {
		errs = append(errs, e.unmap())
	}
	return errors.Join(errs...)
}

// Stats returns what the cache has done.
func (c *Cache) Stats() Stats {
	n := &c.count
	return Stats{
		Hits: n.hits.Load(), Misses: n.misses.Load(), Gets: n.gets.Load(), BytesFetched: n.bytes.Load(),
		BytesCached: c.clock.size(), Evictions: n.evictions.Load(), Errors: n.errors.Load(),
	}
}

// warn logs that the disk fails, at most once in a minute.
func (c *Cache) warn(err error) {
	now, last := time.Now().UnixNano(), c.warned.Load()
	if now-last > int64(time.Minute) && c.warned.CompareAndSwap(last, now) {
		c.opt.Logger.Warn("files of the cold cache cannot be written or read, ranges come from the store", "path", c.opt.Dir, "err", err)
	}
}
