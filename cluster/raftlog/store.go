package raftlog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// Options configures a Store. The zero value works.
type Options struct {
	// SegmentBytes is the size of a full-grown segment, default 16 MiB. The first
	// segments of a log are smaller: 1 MiB, then four times the one before.
	SegmentBytes int64
	Logger       *slog.Logger // default: discard
}

const (
	defaultSegmentBytes = 16 << 20
	firstSegmentBytes   = 1 << 20
	segmentGrowth       = 4
)

// ErrClosed is returned by calls on a closed log.
var ErrClosed = errors.New("raft log is closed")

// ErrDamaged is the class of the errors of a log in which Open found damage.
var ErrDamaged = errors.New("raft log is damaged")

// configuration is an entry of the log that sets the configuration.
type configuration struct {
	index         uint64
	configuration raft.Configuration
}

// Store is a raft.LogStore and a raft.StableStore. See the package comment.
type Store struct {
	fs     vfs.FS
	dir    string
	opt    Options
	logger *slog.Logger

	counters counters
	staged   atomic.Uint64         // the commit index
	kept     atomic.Uint64         // what the last batch says of it
	failed   atomic.Pointer[error] // sticky
	broken   error                 // an ErrDamaged, since Open
	closed   atomic.Bool
	closing  sync.Once

	// writing is held by what changes the log: an append, a truncation, a new base, the
	// start of a segment. Only its holder uses the fields below.
	writing  sync.Mutex
	buffers  [2][]byte // stream and sectors of a batch, for reuse
	spoiled  bool      // a failed write has left something behind the last batch
	sealed   bool      // the last batch says that the log was closed
	basePair *pair

	spare spares

	// mu guards what readers need. It is not held during file I/O.
	mu   sync.RWMutex
	base baseFile
	contents
	damage []Damage

	stableMu   sync.Mutex
	stable     stable
	stablePair *pair
}

var (
	_ raft.LogStore          = (*Store)(nil)
	_ raft.StableStore       = (*Store)(nil)
	_ raft.MonotonicLogStore = (*Store)(nil)
)

// Damage returns what Open found damaged, and what reads have found since. If Open found
// any, the node may not vote: every call of the log and of the stable store returns an
// ErrDamaged, and SetAside moves the log away.
func (s *Store) Damage() []Damage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.damage)
}

// maxDamage bounds how many damages a Store remembers.
const maxDamage = 64

func (s *Store) addDamage(d Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.damage) < maxDamage && !slices.Contains(s.damage, d) {
		s.logger.Error("raft log damaged", "path", d.Path, "offset", d.Offset, "reason", d.Reason)
		s.damage = append(s.damage, d)
	}
}

// readable returns why nothing can be read.
func (s *Store) readable() error {
	if s.broken != nil {
		return s.broken
	}
	if s.closed.Load() {
		return ErrClosed
	}
	return nil
}

// usable returns why nothing can be changed.
func (s *Store) usable() error {
	if err := s.readable(); err != nil {
		return err
	}
	return s.Err()
}

// Err returns the error after which the log accepts no change until it is opened again,
// or nil (W7).
func (s *Store) Err() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *Store) fail(err error) error {
	err = fmt.Errorf("raft log failed, reopen it: %w", err)
	if s.failed.CompareAndSwap(nil, &err) {
		s.logger.Error("raft log failed", "err", err)
	}
	return s.Err()
}

// IsMonotonic implements raft.MonotonicLogStore: the log has no gaps.
func (s *Store) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore. It is 0 if there is no entry.
func (s *Store) FirstIndex() (uint64, error) {
	if err := s.readable(); err != nil {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.first == s.next {
		return 0, nil
	}
	return s.first, nil
}

// LastIndex implements raft.LogStore. It is 0 if there is no entry.
func (s *Store) LastIndex() (uint64, error) {
	if err := s.readable(); err != nil {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.first == s.next {
		return 0, nil
	}
	return s.next - 1, nil
}

// readAhead bounds the first read of an entry. The next entry that is not deleted may be far
// behind it.
const readAhead = 256 << 10

// GetLog implements raft.LogStore. An entry that is not in the log is a
// raft.ErrLogNotFound, one that is damaged on the disk a binio.ErrCorrupt with its
// place. The entry shares no memory with the Store.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	if err := s.readable(); err != nil {
		return err
	}
	g, at, upTo, ok := s.locate(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	defer g.use.RUnlock()
	err := g.read(at, upTo, index, l)
	var c *binio.CorruptError
	if errors.As(err, &c) {
		s.addDamage(Damage{c.Path, c.Offset, c.Reason})
	}
	if err != nil {
		return fmt.Errorf("read entry %d of the raft log: %w", index, err)
	}
	return nil
}

// locate returns the segment of an entry, held for use, and where the entry is in its
// stream: at, and upTo, which is behind it.
func (s *Store) locate(index uint64) (g *segment, at, upTo int64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() || index < s.first || index >= s.next {
		return nil, 0, 0, false
	}
	for _, g := range slices.Backward(s.segments) {
		if len(g.positions) == 0 || index < g.first {
			continue
		}
		i := index - g.first
		at, upTo := int64(g.positions[i]), position(g.end)
		if i+1 < uint64(len(g.positions)) {
			upTo = int64(g.positions[i+1])
		}
		g.use.RLock()
		return g, at, upTo, true
	}
	return nil, 0, 0, false
}

// read reads the entry at position at of the stream, which ends before upTo.
func (g *segment) read(at, upTo int64, index uint64, l *raft.Log) error {
	b, err := g.stream(at, min(upTo, at+readAhead))
	if err == nil && len(b) >= entryHeaderBytes && entryLength(b) > int64(len(b)) && at+entryLength(b) <= upTo {
		b, err = g.stream(at, at+entryLength(b))
	}
	if err != nil {
		return err
	}
	if _, err := parseEntry(b, g.salt(), l); err != nil {
		return binio.Corruptf(g.path, fileOffset(at), "%v", err)
	}
	if l.Index != index {
		return binio.Corruptf(g.path, fileOffset(at), "entry has the index %d instead of %d", l.Index, index)
	}
	return nil
}

// stream reads the bytes [from, to) of the stream.
func (g *segment) stream(from, to int64) ([]byte, error) {
	off := fileOffset(from)
	b := make([]byte, fileOffset(to-1)+1-off)
	if n, err := g.file.ReadAt(b, off); n < len(b) {
		if err == io.EOF {
			return nil, binio.Corruptf(g.path, off, "file ends")
		}
		return nil, fmt.Errorf("read %s at offset %d: %w", g.path, off, err)
	}
	return unstamp(b[:0], b, off), nil
}

// Close ends the use of the log. It marks the end of the log, so that the next Open
// notices if anything before is missing.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.writing.Lock()
		defer s.writing.Unlock()
		err = s.writeClosed()
		s.closed.Store(true)
		s.dropSpare()
		s.mu.Lock()
		segments := s.segments
		s.mu.Unlock()
		err = errors.Join(err, s.closeFiles(segments))
	})
	return err
}

func (s *Store) closeFiles(segments []*segment) error {
	var errs []error
	for _, g := range segments {
		errs = append(errs, g.close())
	}
	if s.basePair != nil {
		errs = append(errs, s.basePair.close())
	}
	if s.stablePair != nil {
		s.stableMu.Lock()
		errs = append(errs, s.stablePair.close())
		s.stableMu.Unlock()
	}
	return errors.Join(errs...)
}
