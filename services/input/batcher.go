package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
)

// Writer stores points. HTTP writes use the same one.
type Writer interface {
	// Table returns the database's table of series, or meta.ErrDatabaseNotFound.
	Table(db string) (*point.Table, error)
	// Write returns nil when all points are durable. After a point.PartialWrite
	// all points that it does not count are. An error that is point.Temporary may
	// be tried again.
	Write(ctx context.Context, db, rp string, batch *point.Batch) error
	// Ensure creates the database, and the policy if rp is not "", if they do not
	// exist.
	Ensure(ctx context.Context, db, rp string) error
}

// Options configure a Batcher. Writer and Database are required.
type Options struct {
	Writer   Writer
	Logger   *slog.Logger // nil discards
	Database string
	// RetentionPolicy "" is the database's default.
	RetentionPolicy string
	// A batch is written when it has BatchSize points or is BatchTimeout old;
	// BatchPending batches may wait to be written. 0: the defaults below.
	BatchSize    int
	BatchPending int
	BatchTimeout time.Duration
	// Figures adds to the statistics what this kind of input counts, by InfluxDB's names.
	Figures func(c *Counts, figures map[string]any)
}

// The defaults of Options. They are InfluxDB's.
const (
	DefaultBatchSize    = 5000
	DefaultBatchPending = 10
	DefaultBatchTimeout = time.Second
)

// maxBatchBytes is the size at which a batch is written before it has BatchSize
// points.
const maxBatchBytes = 1 << 20

// The times between two attempts of a write that failed with a temporary error.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// errClosed is returned when the input closes.
var errClosed = errors.New("input is closing")

// errFull is returned when all batches wait to be written.
var errFull = errors.New("all batches wait to be written")

// Batcher gathers points and writes them in batches.
type Batcher struct {
	opt    Options
	counts Counts
	log    *slog.Logger

	mu struct {
		sync.Mutex
		current *batch // being filled, nil if none
		parser  lineproto.Parser
		closed  bool
	}
	free    chan *batch // empty batches
	full    chan *batch // batches to be written; it has room for all batches
	writers sync.WaitGroup
	closing chan struct{}
	once    sync.Once

	ctx    context.Context // of writes
	cancel context.CancelFunc

	lastLogged atomic.Int64 // time of the last logged failure, Unix ns
	suppressed atomic.Int64 // failures since then
}

// batch is a batch and what fills it.
type batch struct {
	point.Batch
	table   *point.Table
	builder *point.Builder
	timer   *time.Timer
}

func (b *batch) bytes() int { return 8*len(b.Values) + 32*len(b.Rows) + len(b.Strings) }

// NewBatcher creates the database if it does not exist, and starts the writers. The
// caller must call Close.
func NewBatcher(opt Options) *Batcher {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.BatchSize = cmp.Or(max(0, opt.BatchSize), DefaultBatchSize)
	opt.BatchPending = cmp.Or(max(0, opt.BatchPending), DefaultBatchPending)
	opt.BatchTimeout = cmp.Or(max(0, opt.BatchTimeout), DefaultBatchTimeout)
	n := opt.BatchPending + 1
	b := &Batcher{opt: opt, log: opt.Logger, free: make(chan *batch, n), full: make(chan *batch, n), closing: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	for range n {
		b.free <- new(batch)
	}
	if err := opt.Writer.Ensure(b.ctx, opt.Database, opt.RetentionPolicy); err != nil {
		b.Complain("database not made, it is tried again when points come", err)
	}
	b.writers.Go(b.write)
	return b
}

// Counts returns the counts of the input. Decoders add what they receive.
func (b *Batcher) Counts() *Counts { return &b.counts }

// AddLines adds line protocol. unit is the nanoseconds per unit of times, and now the
// time of lines without one. Bad lines are counted. If there is no room, AddLines drops
// and counts the points. It does not keep text.
func (b *Batcher) AddLines(text []byte, unit int64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.beginLocked(false); err != nil {
		b.counts.Dropped.Add(countLines(text))
		b.Complain("points dropped", err)
		return
	}
	c := b.mu.current
	n, err := b.mu.parser.Parse(&c.Batch, c.table, text, lineproto.Options{Unit: unit, Now: now.UnixNano(), MaxErrorBytes: 1 << 10})
	b.counts.Points.Add(int64(n))
	var bad *lineproto.Errors
	if errors.As(err, &bad) {
		b.counts.BadPoints.Add(int64(bad.BadLines + bad.Refused))
		b.log.Debug("bad points", "err", err)
	}
	b.addedLocked()
}

// countLines estimates the points of a text that is not parsed.
func countLines(text []byte) (n int64) {
	for i, c := range text {
		if c == '\n' && i > 0 || i == len(text)-1 && c != '\n' {
			n++
		}
	}
	return n
}

// Offer adds points, or drops and counts them if there is no room.
func (b *Batcher) Offer(points []Point) { _ = b.add(points, false) }

// Add adds points and waits while there is no room. It returns false when the
// batcher closes: the points are dropped.
func (b *Batcher) Add(points []Point) bool { return b.add(points, true) }

func (b *Batcher) add(points []Point, wait bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range points {
		if err := b.beginLocked(wait); err != nil {
			b.counts.Dropped.Add(int64(len(points) - i))
			b.Complain("points dropped", err)
			return false
		}
		c := b.mu.current
		b.count(add(c.builder, &points[i]))
		b.addedLocked()
	}
	return true
}

// count counts a point that was taken, or not for the reason err.
func (b *Batcher) count(err error) {
	if err == nil {
		b.counts.Points.Add(1)
		return
	}
	b.counts.BadPoints.Add(1)
	if err == point.ErrNotFinite {
		b.counts.NotANumber.Add(1)
	}
	b.log.Debug("bad point", "err", err)
}

// beginLocked ensures that there is a batch to fill. With wait it blocks until there
// is one and holds the lock, so that other callers wait too. Writers do not take the
// lock.
func (b *Batcher) beginLocked(wait bool) error {
	if b.mu.closed {
		return errClosed
	}
	if b.mu.current != nil {
		return nil
	}
	var c *batch
	select {
	case c = <-b.free:
	default:
		if !wait {
			return errFull
		}
		select {
		case c = <-b.free:
		case <-b.closing:
			return errClosed
		}
	}
	table, err := b.table()
	for delay := firstRetry; err != nil && wait && point.Temporary(err); delay = min(2*delay, lastRetry) {
		b.Complain("points wait", err)
		if !b.sleep(delay) {
			err = errClosed
			break
		}
		table, err = b.table()
	}
	if err != nil {
		b.free <- c
		return err
	}
	c.table, c.builder = table, point.NewBuilder(table, &c.Batch)
	c.timer = time.AfterFunc(b.opt.BatchTimeout, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.mu.current == c {
			b.sealLocked()
		}
	})
	b.mu.current = c
	return nil
}

// sleep waits, or returns false when the batcher closes.
func (b *Batcher) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.closing:
		return false
	}
}

// table returns the table of the database. It creates the database if it does not
// exist.
func (b *Batcher) table() (*point.Table, error) {
	t, err := b.opt.Writer.Table(b.opt.Database)
	if !errors.Is(err, meta.ErrDatabaseNotFound) {
		return t, err
	}
	if err := b.opt.Writer.Ensure(b.ctx, b.opt.Database, b.opt.RetentionPolicy); err != nil {
		return nil, err
	}
	return b.opt.Writer.Table(b.opt.Database)
}

// addedLocked seals the batch if it is full.
func (b *Batcher) addedLocked() {
	if c := b.mu.current; len(c.Rows) >= b.opt.BatchSize || c.bytes() >= maxBatchBytes {
		b.sealLocked()
	}
}

func (b *Batcher) sealLocked() {
	c := b.mu.current
	b.mu.current = nil
	c.timer.Stop()
	b.full <- c // never blocks
}

// write writes batches until Close.
func (b *Batcher) write() {
	for c := range b.full {
		if len(c.Rows) > 0 {
			b.store(c)
		}
		c.Reset()
		c.table, c.builder = nil, nil
		b.free <- c
	}
}

// store writes a batch. It tries again while the error is temporary and the database is the
// one that the batch was made for.
func (b *Batcher) store(c *batch) {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		_, err := b.writeOnce(b.ctx, &c.Batch)
		if err == nil {
			return
		}
		if !point.Temporary(err) || b.ctx.Err() != nil || b.dropped(c) {
			b.giveUp(&c.Batch)
			b.Complain("batch not written", err)
			return
		}
		b.Complain("batch waits to be written", err)
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-b.ctx.Done():
			t.Stop()
		}
	}
}

// dropped reports whether the database of a batch is gone, or another one has its name.
func (b *Batcher) dropped(c *batch) bool {
	table, err := b.opt.Writer.Table(b.opt.Database)
	return errors.Is(err, meta.ErrDatabaseNotFound) || err == nil && table.Database() != c.Database
}

// writeOnce writes a batch and counts it. It returns how many of its points were
// refused. A retention policy that is gone is made.
func (b *Batcher) writeOnce(ctx context.Context, c *point.Batch) (refused int64, err error) {
	write := func() error { return b.opt.Writer.Write(ctx, b.opt.Database, b.opt.RetentionPolicy, c) }
	if err = write(); errors.Is(err, meta.ErrRetentionPolicyNotFound) {
		if err = b.opt.Writer.Ensure(ctx, b.opt.Database, b.opt.RetentionPolicy); err == nil {
			err = write()
		}
	}
	_, n, partial := point.Partial(err)
	if err != nil && !partial {
		return 0, err
	}
	if partial {
		b.Complain("points refused", err)
	}
	b.counts.Batches.Add(1)
	b.counts.Written.Add(int64(len(c.Rows) - n))
	b.counts.Refused.Add(int64(n))
	return int64(n), nil
}

// giveUp counts a batch that was not written.
func (b *Batcher) giveUp(c *point.Batch) {
	b.counts.BatchesFailed.Add(1)
	b.counts.Failed.Add(int64(len(c.Rows)))
}

// WritePoints writes points at once. They are durable when err is nil. bad is the
// reason why the first of the points that cannot be stored cannot; the other points
// are written.
func (b *Batcher) WritePoints(ctx context.Context, points []Point) (bad, err error) {
	table, err := b.table()
	if err != nil {
		return nil, err
	}
	var c point.Batch
	build := point.NewBuilder(table, &c)
	for i := range points {
		reason := add(build, &points[i])
		b.count(reason)
		if reason != nil && bad == nil {
			bad = reason
		}
	}
	if len(c.Rows) == 0 {
		return bad, nil
	}
	refused, err := b.writeOnce(ctx, &c)
	if err != nil {
		b.giveUp(&c)
		return bad, err
	}
	if refused > 0 && bad == nil {
		bad = fmt.Errorf("%d points refused by the store", refused)
	}
	return bad, nil
}

// complainEvery is the shortest time between two logged failures.
const complainEvery = 10 * time.Second

// Complain logs a failure, unless the input logged one a moment ago.
func (b *Batcher) Complain(message string, err error) {
	now, last := time.Now().UnixNano(), b.lastLogged.Load()
	if last != 0 && now-last < int64(complainEvery) || !b.lastLogged.CompareAndSwap(last, now) {
		b.suppressed.Add(1)
		return
	}
	b.log.Warn(message, "db", b.opt.Database, "rp", b.opt.RetentionPolicy, "err", err, "suppressed", b.suppressed.Swap(0))
}

// Close writes the added points and stops. When ctx ends, it drops and counts the
// remaining points. Calls of Add and Offer after Close drop their points.
func (b *Batcher) Close(ctx context.Context) {
	b.once.Do(func() {
		stop := context.AfterFunc(ctx, b.cancel)
		defer stop()
		close(b.closing) // callers that wait for room give up the lock
		b.mu.Lock()
		b.mu.closed = true
		if b.mu.current != nil {
			b.sealLocked()
		}
		close(b.full)
		b.mu.Unlock()
		b.writers.Wait()
		b.cancel()
	})
}
