package shard

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// ChunkRows is the number of rows of a full chunk.
const ChunkRows = 1024

// Options configure a shard. Series is required.
type Options struct {
	FS     vfs.FS       // default vfs.OS
	Series *series.File // the database's series file
	Range  model.TimeRange
	Logger *slog.Logger
	// Lineage is that of the data directory. A manifest of another one is an
	// identity.ErrForeign.
	Lineage identity.Lineage
	// Flushed says that the shard is known to have had a manifest: without any
	// file its points are lost, and it is not a new shard.
	Flushed bool
	// LogAfter says which entries the log still has: all those of this shard
	// with a higher sequence. A file that no manifest names is removed only if
	// everything in it is in files that one names, or in the log.
	LogAfter uint64
	// Counters counts what flushes and merges do; nil: nobody looks.
	Counters *Counters
	// Pace is called by merges between chunks with the bytes read and written
	// since the last call, and may wait until ctx ends; nil: never.
	Pace func(ctx context.Context, bytes int) error
}

// Shard is one time range of a retention policy. See the package comment.
type Shard struct {
	id       uint64
	dir      string
	lineage  identity.Lineage
	flushed  bool   // see Options.Flushed
	logAfter uint64 // see Options.LogAfter
	fs       vfs.FS
	series   *series.File
	times    model.TimeRange
	logger   *slog.Logger

	counters *Counters
	pace     func(ctx context.Context, bytes int) error
	maxFile  int64 // maxFileBytes, less in tests
	cells    int   // cacheCells, less in tests

	index   *tsi.Index
	writing sync.Mutex // held by Flush's and Compact's changes of the manifest
	edition uint64     // under writing: of the manifest saved last, or tried
	limbo   []string   // under writing: files that a manifest may name that was not saved for sure

	mu struct {
		sync.RWMutex
		set      *fileSet
		active   *cache.Cache
		frozen   *cache.Cache // snapshot being flushed, or nil
		manifest *manifest    // as on disk
		saved    bool         // it is on disk
		closed   bool

		quarantined []Quarantined

		cut       uint64 // sequence at which frozen was cut, 0 if none
		dirty     uint64 // first sequence in active, 0 if none
		lastWrite time.Time

		entries, rows int64 // applied since the shard was opened
	}
	compacting  sync.Mutex
	flushing    sync.Mutex
	indexDamage atomic.Pointer[binio.CorruptError] // found while reading

	closing context.Context // ends with Close, and flushes and merges with it
	close   context.CancelFunc
}

// bound returns a context that ends with ctx or with the shard.
func (s *Shard) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// Open opens or makes the shard in dir, maps the files its manifest names, and
// removes left-overs of a crash. Damage does not keep the shard shut: a TSM file
// with a damaged frame goes to quarantine. A damaged index or manifest does too,
// and is rebuilt from the TSM files. A TSM file that no manifest names and that
// may hold the only copy of points goes to quarantine as well. See Quarantine.
// A manifest of another shard or data directory is an identity.ErrForeign.
func Open(dir string, id uint64, opt Options) (_ *Shard, err error) {
	s := &Shard{id: id, dir: dir, lineage: opt.Lineage, flushed: opt.Flushed, logAfter: opt.LogAfter, fs: opt.FS, series: opt.Series, times: opt.Range, logger: opt.Logger, counters: opt.Counters, pace: opt.Pace, maxFile: maxFileBytes, cells: cacheCells}
	if s.counters == nil {
		s.counters = &Counters{}
	}
	if s.fs == nil {
		s.fs = vfs.OS
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if err := s.ListQuarantine(); err != nil {
		return nil, err
	}
	m, stale, lost, err := s.loadManifest()
	if err != nil {
		return nil, err
	}
	files, changed, err := s.openFiles(m)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.reader.Release()
			}
		}
	}()
	index, rebuilt, err := s.openIndex(m, files, lost)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			index.Close()
		}
	}()
	if stale || changed || rebuilt {
		if err := s.save(m); err != nil {
			return nil, fmt.Errorf("open shard %d: %w", id, err)
		}
		s.mu.saved = true
	}
	if err := s.removeStrays(m, changed); err != nil {
		return nil, err
	}
	s.index = index
	s.closing, s.close = context.WithCancel(context.Background())
	s.mu.manifest = m
	s.mu.set = newFileSet(files, m.tombstones)
	s.mu.active = cache.New(observer{s})
	s.mu.lastWrite = time.Now()
	return s, nil
}

func (s *Shard) path(name string) string { return s.dir + "/" + name }

// Leftover reports whether a file that the manifest does not name has a name
// that flushes, merges and changes of the manifest give: Open removes it, or sets
// it aside. It leaves all other files alone.
func Leftover(name string) bool {
	if name == manifestName+".tmp" || name == manifestCopy+".tmp" {
		return true
	}
	base, ext, _ := strings.Cut(name, ".")
	if _, err := strconv.ParseUint(base, 10, 64); err != nil {
		return false
	}
	return ext == "tsm" || ext == "tsi" || strings.HasSuffix(ext, ".tmp") || slices.Contains(tsm.ScratchNames(base+".tsm"), name)
}

// removeStrays removes what a crash left: files with our names that the
// manifest does not list, and temporary files. TSM files that keepStray names go
// to quarantine. incomplete says that files which m names are lost.
func (s *Shard) removeStrays(m *manifest, incomplete bool) error {
	keep := map[string]bool{manifestName: true, manifestCopy: true}
	for _, f := range m.tsm {
		keep[tsmName(f.number)] = true
	}
	for _, f := range m.tsi {
		keep[tsiName(f.number)] = true
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("open shard %d: %w", s.id, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return keep[name] || !Leftover(name) })
	if len(names) > 0 {
		// A server that was killed may have renamed the manifest and not synced
		// its name: a power cut would bring the one back that lists the strays.
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("open shard %d: %w", s.id, err)
		}
	}
	for _, name := range names {
		if path.Ext(name) == ".tsm" {
			kept, err := s.keepStray(name, m, incomplete)
			if err != nil {
				return err
			}
			if kept {
				continue
			}
		}
		if err := s.fs.Remove(s.path(name)); err != nil {
			return fmt.Errorf("remove stray %s: %w", s.path(name), err)
		}
		s.logger.Info("stray file removed", "shard", s.id, "path", s.path(name))
	}
	return nil
}

// keepStray sets a TSM file that the manifest m does not name aside, unless it
// is certain that nothing is lost with it. A merge leaves files of sequences
// that m has in other files. A flush that was cut off leaves a file of entries
// that the log still has, or one that was not finished. Any other file was once
// in a manifest, newer than m, that somebody has replaced.
func (s *Shard) keepStray(name string, m *manifest, incomplete bool) (kept bool, err error) {
	r, err := tsm.Open(s.fs, s.path(name))
	if err != nil {
		if isDamage(err) {
			return false, nil
		}
		return false, fmt.Errorf("open shard %d: %w", s.id, err)
	}
	i := r.Info()
	if err := r.Release(); err != nil {
		return false, fmt.Errorf("open shard %d: %w", s.id, err)
	}
	merged := i.MaxSequence <= m.flushed && !incomplete
	logged := i.MinSequence > m.flushed && i.MinSequence > s.logAfter
	if merged || logged {
		return false, nil
	}
	why := fmt.Errorf("no manifest names %s, which has rows of the log's entries %d to %d", s.path(name), i.MinSequence, i.MaxSequence)
	effect := fmt.Sprintf("The manifest of shard %d is older than this file. The rows of the file are missing from answers.", s.id)
	return true, s.setAside(name, why, LossPoints, effect)
}

// ID returns the shard's id.
func (s *Shard) ID() uint64 { return s.id }

// TimeRange returns the range of times the shard may hold.
func (s *Shard) TimeRange() model.TimeRange { return s.times }

// CheckFields reports whether a layout has fields that the shard does not know,
// and returns the conflicts that forbid its points.
func (s *Shard) CheckFields(l *point.Layout) (fresh bool, conflicts []tsi.FieldConflict) {
	missing, conflicts := s.index.CheckFields(l)
	return missing > 0, conflicts
}

// ClaimFields returns an empty claim on new fields, see tsi.FieldClaim.
func (s *Shard) ClaimFields() *tsi.FieldClaim { return s.index.ClaimFields() }

// Contains reports whether the shard has a series.
func (s *Shard) Contains(id model.SeriesID) bool { return s.index.Contains(id) }

// observer brings the index up to date with what the cache meets first.
type observer struct{ s *Shard }

func (o observer) NewSeries(series []*point.Series) { o.s.index.AddAll(series) }
func (o observer) NewLayout(l *point.Layout)        { o.s.index.RegisterFields(l) }

// Apply makes logged rows readable. sequence is their entry's; entries come in
// ascending order. What a published file covers is skipped (replay).
func (s *Shard) Apply(sequence uint64, rows []point.Row, values []uint64, strings []byte) {
	s.mu.Lock()
	if s.mu.closed || sequence <= s.mu.manifest.flushed {
		s.mu.Unlock()
		return
	}
	active := s.mu.active
	if s.mu.dirty == 0 {
		s.mu.dirty = sequence
	}
	s.mu.lastWrite = time.Now()
	s.mu.entries++
	s.mu.rows += int64(len(rows))
	s.mu.Unlock()
	active.Apply(rows, values, strings)
}

// Delete hides what the shard holds of the series in set within times, as of
// sequence (W5), and takes series that are left without rows out of the index.
func (s *Shard) Delete(sequence uint64, set *roaring.Bitmap, times model.TimeRange) error {
	s.mu.Lock()
	if s.mu.closed || sequence <= s.mu.manifest.flushed {
		s.mu.Unlock()
		return nil
	}
	if s.mu.dirty == 0 {
		s.mu.dirty = sequence
	}
	s.mu.active.Delete(set, times)
	if s.mu.frozen != nil {
		s.mu.frozen.Delete(set, times)
	}
	if !slices.ContainsFunc(s.mu.set.tombstones, func(t *tombstone) bool { return t.sequence == sequence && t.series.Equals(set) && t.times == times }) {
		old := s.mu.set
		s.mu.set = old.withTombstone(&tombstone{sequence: sequence, times: times, series: set})
		old.release()
	}
	active := s.mu.active
	s.mu.Unlock()

	gone := set
	if !times.Covers(s.times) {
		var err error
		if gone, err = s.withoutRows(set); err != nil {
			return err
		}
	}
	if gone.IsEmpty() {
		return nil
	}
	// Forgotten even if the index fails half way: rows to come announce
	// themselves again, which is harmless where nothing was removed.
	_, err := s.index.RemoveSeries(gone)
	active.Forget(gone)
	return s.indexError(err)
}

// withoutRows returns the series of set of which nothing is left to read.
func (s *Shard) withoutRows(set *roaring.Bitmap) (_ *roaring.Bitmap, err error) {
	defer vfs.CatchFault(&err)()
	gone := roaring.New()
	v := s.View()
	if v == nil {
		return gone, nil // closed meanwhile
	}
	defer v.Release()
	c := v.open(set)
	it := set.Iterator()
	for it.HasNext() {
		id := it.Next()
		has, err := c.hasRows(model.SeriesID(id))
		if err != nil {
			return nil, err
		}
		if !has {
			gone.Add(id)
		}
	}
	return gone, nil
}

// Bytes returns the memory of the caches, and of the index of series that are
// not in files.
func (s *Shard) Bytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.mu.active.Bytes() + s.index.Bytes()
	if s.mu.frozen != nil {
		n += s.mu.frozen.Bytes()
	}
	return n
}

// ActiveBytes returns the memory of the cache and of the index that a flush
// would write.
func (s *Shard) ActiveBytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.active.Bytes() + s.index.MutableBytes()
}

// Saved reports whether the shard has a manifest on disk.
func (s *Shard) Saved() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.saved
}

// Flushed returns the sequence up to which the shard's files cover the log.
func (s *Shard) Flushed() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.manifest.flushed
}

// LastSequence returns the highest sequence that the shard's files or their
// tombstones know of. It may be above Flushed, and above what a log has left
// that lost its end: numbers given out from now on must be higher still.
func (s *Shard) LastSequence() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	last := s.mu.manifest.flushed
	for _, f := range s.mu.manifest.tsm {
		last = max(last, f.maxSequence, f.tombstoneSeq)
	}
	for _, t := range s.mu.manifest.tombstones {
		last = max(last, t.sequence)
	}
	return last
}

// FirstUnflushed returns the lowest sequence that only the log keeps safe for
// this shard, and false if there is none.
func (s *Shard) FirstUnflushed() (uint64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.frozen != nil {
		return s.mu.manifest.flushed + 1, true
	}
	return s.mu.dirty, s.mu.dirty != 0
}

// LastWrite returns when rows were last applied.
func (s *Shard) LastWrite() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.lastWrite
}

// DiskBytes returns the size of the shard's files, and Files their number.
func (s *Shard) DiskBytes() (bytes int64, files int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.mu.manifest.tsm {
		bytes += f.size
	}
	for _, f := range s.mu.manifest.tsi {
		bytes += f.size
	}
	return bytes, len(s.mu.manifest.tsm) + len(s.mu.manifest.tsi)
}

// Applied returns how many entries of the log, and rows in them, went into the
// shard's cache since it was opened.
func (s *Shard) Applied() (entries, rows int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.entries, s.mu.rows
}

// Close ends the shard. Views taken before stay readable until released.
func (s *Shard) Close() error {
	s.close()
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.compacting.Lock()
	defer s.compacting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil
	}
	s.mu.closed = true
	s.mu.set.release()
	for _, f := range s.mu.set.files {
		f.reader.Release() // the reference of Open
	}
	s.index.Close()
	return nil
}
