package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

// Options configures a Log. The zero value works.
type Options struct {
	FS vfs.FS // default vfs.OS
	// SegmentBytes is the size of a full-grown segment, default 16 MiB. The
	// first segments of a log are smaller: 1 MiB, then four times the one
	// before.
	SegmentBytes int64
	// SyncInterval relaxes durability: 0 syncs before Append returns; above 0,
	// entries are written before Append returns and synced that much later at
	// the latest, so a power failure may take the last interval's entries.
	SyncInterval time.Duration
	// Apply is called for every appended entry in order of sequence, by one
	// goroutine, once the entry is durable (written, under a SyncInterval) and
	// before its Append returns. The entry is the caller's own. It must not
	// call Append, Rotate or Close. An error is sticky, see Err: the entry stays in the
	// log, and nothing behind it is applied.
	Apply func(e *entry.Entry) error
	// OnFailure is called once, when the log fails for good (see Err). It must
	// not call Append, Rotate or Close.
	OnFailure func(error)
	// Lineage is that of the data directory. A segment of another one is set
	// aside, and what the log then lacks is damage.
	Lineage identity.Lineage
	// Known is what the owner remembers of the log.
	Known Known
	// OnSegment is called when a segment with this number can be found by the
	// next Open, and before it has an entry. Entries up to sequence are synced. It
	// must not call Append, Rotate or Close.
	OnSegment func(number, sequence uint64)
	// BeforeTrim is called before a Trim gives up segments; an error keeps them. It
	// must not call Rotate, Trim, Shrink or Close.
	BeforeTrim func(sequence uint64) error
	Logger     *slog.Logger // default: discard
}

// Known is what the owner of a log remembers of it in another place, so that
// Replay notices when the end of the log is missing. The zero value remembers
// nothing.
type Known struct {
	Segment  uint64 // this segment was begun
	Sequence uint64 // the log had entries up to this one, synced
	Open     bool   // more entries may have followed in the segment
	Told     bool   // what is missing was reported at an earlier start
	// Covered says that entries up to it are in published files: damage of these
	// loses nothing.
	Covered uint64
}

const (
	defaultSegmentBytes = 16 << 20
	firstSegmentBytes   = 1 << 20
	segmentGrowth       = 4
	maxSpares           = 4 // trimmed segments that are kept for reuse
	minSegmentBytes     = 4 << 10
)

// ErrClosed is returned by calls on a closed log.
var ErrClosed = errors.New("wal is closed")

// errNotReplayed is the answer to an Append that Replay did not precede.
var errNotReplayed = errors.New("wal was not replayed")

// Log is a segmented write-ahead log. See the package comment.
type Log struct {
	dir string
	opt Options
	fs  vfs.FS
	log *slog.Logger

	epoch    uint32 // of the segments this Log writes
	lostEnd  bool   // see LostEnd
	covered  uint64 // entries up to it are not lost by damage
	damage   []Damage
	replayed atomic.Bool
	sequence atomic.Uint64 // last assigned and written
	failed   atomic.Pointer[error]
	counters counters
	// Advance moved sequence to advanced from beforeAdvance; 0: it did not.
	advanced, beforeAdvance uint64

	// queue is what writers wait in. Bounded by entries and by bytes.
	queue struct {
		sync.Mutex
		notEmpty, notFull sync.Cond
		requests          []*request
		bytes             int
		closed            bool
	}
	requests sync.Pool // of *request

	// files is what Trim, the preparer and the committer share.
	files struct {
		sync.Mutex
		prepared   sync.Cond
		closed     []SegmentInfo // oldest first, active excluded
		spares     []spare
		number     uint64 // last number given to a segment or a spare
		active     *openFile
		next       *openFile // ready to become active
		preparing  bool
		err        error     // why the last preparation failed
		retryAt    time.Time // not to be tried again before
		freshSize  int64     // size of the next segment that is not recycled
		activeSize int64     // of the active segment, for Stats
	}
	trim      sync.Mutex // serialises Trim
	noBackoff bool       // tests only: retry a failed preparation at once

	// Only the committer uses these.
	buffer  []byte
	defined entry.Definitions
	resumed *openFile // the last replayed segment, not open, if resume may continue it
	scrub   int64     // bytes behind active.end that a refused write may have left

	// syncing guards the active file against being closed during a sync by the
	// interval. writes counts the writes under a SyncInterval, synced is the
	// count that the last sync covered.
	syncing        sync.Mutex
	writes, synced atomic.Uint64
	// For how long they last: the work of the committer, and a sync by the interval.
	committing, intervalSync vfs.UnderWay

	applies chan []*request
	stop    chan struct{}
	wg      sync.WaitGroup
	closing sync.Once
	closed  error
}

// Open opens the log in dir, creating the directory if needed. It finds the
// segments and reads their headers; the entries are read by Replay, which must
// be called before the first Append. It takes no lock. A segment of an unknown
// version is an error, and nothing was changed.
func Open(dir string, opt Options) (*Log, error) {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.SegmentBytes <= 0 {
		opt.SegmentBytes = defaultSegmentBytes
	}
	opt.SegmentBytes = max(opt.SegmentBytes, minSegmentBytes)
	if opt.Apply == nil {
		opt.Apply = func(*entry.Entry) error { return nil }
	}
	if opt.BeforeTrim == nil {
		opt.BeforeTrim = func(uint64) error { return nil }
	}
	l := &Log{
		dir: dir, opt: opt, fs: opt.FS, log: opt.Logger,
		epoch:   1,
		applies: make(chan []*request, 1),
		stop:    make(chan struct{}),
	}
	l.covered = opt.Known.Covered
	l.files.freshSize = l.firstSize()
	l.queue.notEmpty.L, l.queue.notFull.L = &l.queue.Mutex, &l.queue.Mutex
	l.files.prepared.L = &l.files.Mutex
	if err := l.find(); err != nil {
		return nil, fmt.Errorf("open wal %s: %w", dir, err)
	}
	l.wg.Go(l.commitLoop)
	l.wg.Go(l.applyLoop)
	if opt.SyncInterval > 0 {
		l.wg.Go(l.syncLoop)
	}
	return l, nil
}

// find lists the directory and reads the segments' headers.
func (l *Log) find() error {
	if _, err := l.fs.Stat(l.dir); err != nil {
		if err := l.fs.MkdirAll(l.dir); err != nil {
			return err
		}
	}
	// Always: an earlier start may have made the directory and not synced it.
	if err := l.fs.SyncDir(path.Dir(l.dir)); err != nil {
		return err
	}
	names, err := l.fs.List(l.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if n, ok := parseName(name, segmentSuffix); ok {
			l.files.number = max(l.files.number, n)
		}
		n, ok := parseName(name, spareSuffix)
		if !ok {
			continue
		}
		file := path.Join(l.dir, name)
		st, err := l.fs.Stat(file)
		if err != nil {
			return err
		}
		l.files.spares = append(l.files.spares, spare{path: file, size: st.Size()})
		l.files.number = max(l.files.number, n)
	}
	l.files.closed, err = findSegments(l.fs, l.dir, l.report, func(s *SegmentInfo) (bool, error) {
		if s.headerErr != nil || s.Lineage == l.opt.Lineage {
			return false, nil
		}
		return true, l.setAside(s)
	})
	for i := range l.files.closed {
		s := &l.files.closed[i]
		l.files.number, l.epoch = max(l.files.number, s.Number), max(l.epoch, s.Epoch+1)
	}
	return err
}

// report records a damage and logs it.
func (l *Log) report(d Damage) {
	l.damage = append(l.damage, d)
	args := []any{"path", d.Segment, "offset", d.Offset, "bytes", d.Bytes, "reason", d.Reason, "quarantine", d.Quarantine}
	switch {
	case d.Torn:
		l.log.Warn("wal tail cut", args...)
	case d.Harmless:
		l.log.Warn("wal damaged, nothing is lost: its entries are in files", args...)
	default:
		l.log.Error("wal damaged", args...)
	}
}

// Damage returns what Open and Replay found damaged, in order of the log.
func (l *Log) Damage() []Damage { return l.damage }

// Sequence returns the sequence of the last entry that was replayed or
// written; 0 when there is none.
func (l *Log) Sequence() uint64 { return l.sequence.Load() }

// Err returns the error that ended the log's life, or nil. Once set, every
// Append and Rotate returns it, until the log is opened again (W7).
func (l *Log) Err() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail makes err sticky.
func (l *Log) fail(err error) error {
	err = fmt.Errorf("wal failed, reopen it: %w", err)
	if l.failed.CompareAndSwap(nil, &err) {
		l.log.Error("wal failed", "err", err)
		if l.opt.OnFailure != nil {
			l.opt.OnFailure(err)
		}
	}
	return l.Err()
}

// Close writes and applies what is queued, seals the active segment and frees
// everything. Calls of Append that come later get ErrClosed.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.queue.Lock()
		l.queue.closed = true
		l.queue.notEmpty.Broadcast()
		l.queue.notFull.Broadcast()
		l.queue.Unlock()
		close(l.stop)
		l.wg.Wait()
		l.closed = l.closeFiles()
	})
	return l.closed
}

func (l *Log) closeFiles() error {
	var errs []error
	if a := l.files.active; a != nil {
		switch {
		case l.Err() != nil:
		case l.scrub == 0:
			errs = append(errs, l.seal(a))
		case l.dirty(): // what a refused write left behind is cut by the next replay
			errs = append(errs, l.sync(a))
		}
		errs = append(errs, a.file.Close())
		l.files.active = nil
	}
	if n := l.files.next; n != nil {
		errs = append(errs, n.file.Close())
		l.files.next = nil
	}
	return errors.Join(errs...)
}
