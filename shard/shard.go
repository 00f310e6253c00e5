package shard

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/internal/identity"
	"tsdbd/internal/ordered"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard/counters"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/shard/repair"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// Options configure a shard. Series is required.
type Options struct {
	FS     vfs.FS       // default vfs.OS
	Series *series.File // the database's series file
	Range  model.TimeRange
	Logger *slog.Logger
	// Lineage is that of the data directory. A manifest of another one is an
	// identity.ErrForeign.
	Lineage identity.Lineage
	// Known is what the ledger says of the shard's manifest. Without any file its
	// points are lost, and it is not a new shard; with an older manifest what came since is.
	Known manifest.Known
	// LogAfter says which entries the log still has: all those of this shard
	// with a higher sequence. A file that no manifest names is removed only if
	// everything in it is in files that one names, or in the log.
	LogAfter uint64
	// Counters counts what flushes and merges do; nil: nobody looks.
	Counters *counters.Counters
	// Slabs is where caches take memory from, and give it back after a flush; nil: they share none.
	Slabs *cache.Slabs
	// Pace is called by merges between chunks with the bytes read and written
	// since the last call, and may wait until ctx ends; nil: never.
	Pace func(ctx context.Context, bytes int) error
	// MergeBytes bounds the files that a merge reads, and so the disk space that it takes
	// until it is published. A single series that is larger is read all the same. 0: 16 GiB.
	MergeBytes int64
	// Renew changes the manifest that was found, if it is set. The index is then built from
	// the files. See package renew.
	Renew func(*manifest.Manifest) error
	// Cold returns the body of an object in the cold store; nil: none is set.
	Cold func(object string, size int64) tsm.Body
}

// Shard is one time range of a retention policy. See the package comment.
type Shard struct {
	id      uint64
	dir     string
	lineage identity.Lineage
	fs      vfs.FS
	series  *series.File
	times   model.TimeRange
	logger  *slog.Logger

	counters *counters.Counters
	slabs    *cache.Slabs
	pace     func(ctx context.Context, bytes int) error
	maxFile  int64 // plan.MaxFileBytes, less in tests
	maxMerge int64 // see Options.MergeBytes
	cells    int   // cacheCells, less in tests
	few      int   // maxPlaces, less in tests
	cold     func(object string, size int64) tsm.Body
	purging  atomic.Bool // see Purge

	index   *tsi.Index
	writing ordered.Mutex // held by Flush's and Compact's changes of the manifest
	edition uint64        // under writing: of the manifest saved last, or tried
	// maybeNamed are files that a manifest on disk may name although its save
	// failed. Under writing.
	maybeNamed []string
	quarantine *repair.Quarantine

	mu struct {
		ordered.RWMutex
		set      *fileSet
		active   *cache.Cache
		cuts     []cut              // caches that are not in a file yet, older ones first
		frozen   int                // so many of cuts are the snapshot that is being flushed
		manifest *manifest.Manifest // as on disk
		saved    bool               // it is on disk
		closed   bool
		stuck    stuck

		first     uint64 // first sequence with rows in active, 0 if none
		dirty     uint64 // first sequence that is neither in files nor in frozen, 0 if none
		lastWrite time.Time

		entries, rows int64 // applied since the shard was opened
	}
	compacting ordered.Mutex
	flushing   ordered.Mutex

	closing context.Context // ends with Close, and flushes and merges with it
	close   context.CancelFunc
}

// stuck identifies pending moves that no merge can apply, because the rows of their series
// are damaged: the first ones of a list. A newer tombstone than the one noted here may
// delete these rows. Then the next merge tries again.
type stuck struct {
	list      *moves.List
	moves     int
	tombstone uint64
}

// cut is a cache that takes no more rows, because of a flush or a move.
type cut struct {
	cache           *cache.Cache
	first, sequence uint64 // of the first entry with rows in it, and up to which it has them
}

// bytesOf returns the memory of caches.
func bytesOf(cuts []cut) (n int64) {
	for _, c := range cuts {
		n += c.cache.Bytes()
	}
	return n
}

// pendingLocked returns the sequence at which the oldest cache was cut that is not in a
// file yet, 0 if none was. s.mu is held.
func (s *Shard) pendingLocked() uint64 {
	for _, c := range s.mu.cuts {
		return c.sequence
	}
	return 0
}

// bound returns a context that ends with ctx or with the shard.
func (s *Shard) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *Shard) path(name string) string { return s.dir + "/" + name }

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
	if s.mu.closed || sequence <= s.mu.manifest.Flushed {
		s.mu.Unlock()
		return
	}
	active := s.mu.active
	if s.mu.first == 0 {
		s.mu.first = sequence
	}
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
	if s.mu.closed || sequence <= s.mu.manifest.Flushed {
		s.mu.Unlock()
		return nil
	}
	if s.mu.dirty == 0 {
		s.mu.dirty = sequence
	}
	s.mu.active.Delete(set, times)
	for _, c := range s.mu.cuts {
		c.cache.Delete(s.mu.set.Moves.Door(c.sequence).Original(0, set, sequence), times)
	}
	if !slices.ContainsFunc(s.mu.set.Tombstones, func(t *manifest.Tombstone) bool {
		return t.Sequence == sequence && t.Series.Equals(set) && t.Range == times
	}) {
		old := s.mu.set
		s.mu.set = old.with(&manifest.Tombstone{Sequence: sequence, Range: times, Series: set})
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
	return err
}

// withoutRows returns the series of set that have no rows left.
func (s *Shard) withoutRows(set *roaring.Bitmap) (_ *roaring.Bitmap, err error) {
	defer vfs.CatchFault(&err)()
	gone := roaring.New()
	v := s.View()
	if v == nil {
		return gone, nil // closed meanwhile
	}
	defer v.Release()
	p := v.pieces(context.Background(), model.AllTime)
	for it := set.Iterator(); it.HasNext(); {
		id := it.Next()
		if has, err := p.hasRows(model.SeriesID(id)); err != nil {
			return nil, err
		} else if !has {
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
	return s.mu.active.Bytes() + s.index.Bytes() + bytesOf(s.mu.cuts)
}

// ActiveBytes returns the memory of the cache and of the index that a flush
// would write.
func (s *Shard) ActiveBytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.active.Bytes() + s.index.MutableBytes() + bytesOf(s.mu.cuts[s.mu.frozen:])
}

// FillsChunks reports whether a flush would write full chunks, on average.
func (s *Shard) FillsChunks() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.active.Rows() >= tsm.ChunkRows*int64(s.mu.active.Count())
}

// Saved reports whether the shard has a manifest on disk.
func (s *Shard) Saved() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.saved
}

// Known returns what the ledger is to know of the manifest on disk.
func (s *Shard) Known() manifest.Known {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.manifest.Known()
}

// Flushed returns the sequence up to which the shard's files cover the log.
func (s *Shard) Flushed() uint64 { return s.Known().Flushed }

// LastSequence returns the highest sequence that the shard's files or their
// tombstones know of. It may be above Flushed, and above what a log has left
// that lost its end: numbers given out from now on must be higher still.
func (s *Shard) LastSequence() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	last := s.mu.manifest.Flushed
	for _, f := range s.mu.manifest.TSM {
		last = max(last, f.MaxSequence, f.TombstonesSequence)
	}
	for _, t := range s.mu.manifest.Tombstones {
		last = max(last, t.Sequence)
	}
	for _, m := range s.mu.manifest.Moves {
		last = max(last, m.Sequence)
	}
	return last
}

// FirstUnflushed returns the lowest sequence that only the log keeps safe for
// this shard, and false if there is none.
func (s *Shard) FirstUnflushed() (uint64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.frozen > 0 {
		return s.mu.manifest.Flushed + 1, true
	}
	return s.mu.dirty, s.mu.dirty != 0
}

// LastWrite returns when rows were last applied.
func (s *Shard) LastWrite() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.lastWrite
}

// DiskBytes returns the size of the shard's files on this machine, and their number.
func (s *Shard) DiskBytes() (bytes int64, files int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.mu.set.files {
		bytes += int64(len(f.reader.Data()))
	}
	for _, f := range s.mu.manifest.TSI {
		bytes += f.Size
	}
	return bytes, len(s.mu.manifest.TSM) + len(s.mu.manifest.TSI)
}

// Rows returns about how many rows there are: merges find those that came again or are deleted.
func (s *Shard) Rows() (n int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.mu.set.files {
		n += f.reader.Info().Rows - f.hidden.Load()
	}
	for _, c := range s.mu.cuts {
		n += c.cache.Rows()
	}
	return n + s.mu.active.Rows()
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
