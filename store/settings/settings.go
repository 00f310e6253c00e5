// Package settings has what a store is opened with: its options, and the log that it
// works on.
package settings

import (
	"context"
	"log/slog"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/tsm"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// Options adjust a Store; the zero value works.
type Options struct {
	FS     vfs.FS       // default vfs.OS
	Logger *slog.Logger // nil discards

	// SyncInterval 0 makes every write durable before its answer. Above 0 the
	// log is synced that often and a crash of the machine may lose what was
	// answered since.
	SyncInterval time.Duration
	SegmentBytes int64 // of the log; 0: the log's default
	// OpenLog opens the log; nil: that of a single node, in the data directory.
	OpenLog func(LogOptions) (Log, error)
	// LogAfter says, with OpenLog, which entries the log has: all those with a higher
	// sequence. The files have the others.
	LogAfter uint64
	// Follower, with OpenLog, opens the store of a node that follows another one:
	// writes, deletes and changes of the catalog are refused with ErrNotLeader until
	// Lead. What the log has comes by LogOptions.Follow.
	Follower bool

	FlushBytes int64 // a shard's cache is flushed above it, or above a third if that fills chunks; default 48 MiB
	CacheBytes int64 // hard mark of all caches, writes are refused above it; default 512 MiB
	// Exemplars is how many exemplars the store keeps in memory, in all databases. They take
	// an eighth of CacheBytes at most. 0: none are kept.
	Exemplars        int
	SeriesTableBytes int64         // memory of the series that parsers remember, in all databases; above it the largest table is trimmed; unpacked keys take a quarter of it besides, at most 32 MiB; default 256 MiB
	FlushIdle        time.Duration // a cache without writes for so long is flushed; default 10 min
	LogBytes         int64         // above it the shards that pin the oldest segments are flushed; default 512 MiB
	CompactAfter     time.Duration // a shard without writes for so long is compacted fully; default 10 min
	MergeBytes       int64         // a merge reads at most so much of files; default 16 GiB
	CloseFlush       time.Duration // Close begins no flush after it, the log keeps the rest; default 20 s, < 0: it flushes nothing

	Limits

	Shards            meta.ShardDurations // retention policy duration -> shard group duration
	RetentionInterval time.Duration       // between checks for expired shard groups; 0: the default; < 0: never
	RetentionWait     time.Duration       // for which an expired group waits for downsamples; 0: for ever
	Now               func() time.Time    // wall clock; nil: time.Now

	// Cold returns the body of an object in the cold store, for files whose bodies are there;
	// nil: no store is set.
	Cold func(object string, size int64) tsm.Body
}

// Limits are the options that SetLimits changes while the store is open.
type Limits struct {
	// CompactBytesPerSecond bounds what merges read and write together; 0: no
	// bound. Either way they make way for flushes.
	CompactBytesPerSecond int64

	// What a database may hold; 0: no bound. Points of new series and fields beyond
	// it are dropped, and the writer is told.
	MaxSeriesPerDatabase    int
	MaxValuesPerTag         int // of each tag key of each measurement
	MaxFieldsPerMeasurement int // in each shard

	// ValidateKeys drops points whose series has a character that is not printable in
	// its measurement or tags, as InfluxDB's setting of this name does.
	ValidateKeys bool
}

// FullBytes returns above what a cache is flushed whose rows fill chunks: more of them make no
// better files. So much memory of flushed caches is kept for others, too.
func (o *Options) FullBytes() int64 { return o.FlushBytes / 3 }

// SetDefaults gives options that are zero their defaults.
func (o *Options) SetDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	positive(&o.FlushBytes, 48<<20)
	positive(&o.CacheBytes, 512<<20)
	positive(&o.SeriesTableBytes, 256<<20)
	positive(&o.FlushIdle, 10*time.Minute)
	positive(&o.LogBytes, 512<<20)
	positive(&o.CompactAfter, 10*time.Minute)
	if o.CloseFlush == 0 {
		o.CloseFlush = 20 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// positive gives an option its default.
func positive[T int64 | time.Duration](option *T, otherwise T) {
	if *option <= 0 {
		*option = otherwise
	}
}

// Log is what the store needs of a log: an order of entries, durable before they
// are applied. wal.Log is the log of a single node.
type Log interface {
	// Replay calls fn with every entry of the log, before the first Append. An
	// entry for which fn returns a binio.ErrCorrupt counts as damaged.
	Replay(fn func(*entry.Entry) error) error
	// Advance makes the next entry get a sequence above this one. It comes
	// between Replay and the first Append.
	Advance(sequence uint64) error
	// Append returns when the entry is durable and LogOptions.Apply has returned
	// for it. After that of Err, nobody knows before the next start whether the log has
	// the entry. After an ErrNotLeader, nobody knows whether it comes back by
	// LogOptions.Follow: the log takes no further entry then until the store has
	// retired. Any other error means that the entry never will be durable.
	Append(e *entry.Entry) error
	// Trim says that the entries up to sequence are not needed any more, Shrink
	// that no new ones are on their way either.
	Trim(sequence uint64) error
	Shrink(sequence uint64) error
	Stats() wal.Stats
	// Damage is what Replay could not deliver.
	Damage() []wal.Damage
	// Err is the failure that ended the log's life, nil while it lives (W7).
	Err() error
	Close() error
}

// LogOptions are what the store does for its log.
type LogOptions struct {
	// Apply is called for every entry that this store has appended, in order of
	// sequence, once it is durable. The entry is the one that Append was called with. After
	// an error the entry is not applied, in no part, and nothing that comes after it may be.
	Apply func(e *entry.Entry) error
	// Follow applies a durable entry that another node appended, or this one in an
	// earlier leadership, in the same order. It is for the log of a store that was
	// opened as a Follower and does not lead. An entry may come again after a restart: what
	// the files have is left out. Follow waits while there is no memory, and while the
	// disk is full, until ctx ends: then the entry is not applied. Any other error means
	// that this store cannot go on: the entry does not fit to what it has, or it is closed.
	Follow func(ctx context.Context, e *entry.Entry) error
	// Resolve returns the key of a series of a database, for entries that do not define
	// it.
	Resolve func(database uint32, id model.SeriesID) (key string, ok bool)
	// OnFailure is called once, when the log fails for good.
	OnFailure func(error)
	// BeforeTrim is called before entries up to sequence are given up; an error
	// keeps them.
	BeforeTrim func(sequence uint64) error
}
