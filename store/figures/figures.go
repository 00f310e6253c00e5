// Package figures is what a store tells of itself: one snapshot, which /metrics,
// SHOW STATS and /health read.
package figures

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/shard/counters"
	"tsdbd/shard/repair"
	"tsdbd/wal"
)

// Figures are what a store did since it was opened, and what it holds.
type Figures struct {
	State

	// Points and their values that were made durable; points dropped for good, those
	// among them over a limit of cardinality; points refused for lack of memory, and
	// those that failed.
	Points, Values, Dropped, Over, Refused, Failed int64
	Deletes, Moves                                 int64
	// Exemplars that were kept, and those left out because their series has later ones;
	// those in memory, and their bytes.
	Exemplars, OlderExemplars, ExemplarsHeld, ExemplarBytes int64

	Flushes, FlushFailures, FlushBytes int64
	FlushTime                          time.Duration

	Compactions, CompactionFailures   int64
	CompactionTime                    time.Duration
	MergeReadBytes, MergeWrittenBytes int64
	Merges, MergeBytes                [counters.Levels]int64 // by the level of their result
	Compacting                        bool
	QueueFiles                        int64 // that the next merge of each shard would read

	Shards                 []Shard // by id
	Databases              int     // that are open
	Series                 int64   // of all databases
	SkippedIDs             int64   // of series, that were given and that damage has taken from a series file
	CacheLimit, TableBytes int64
	DiskFree               int64 // -1 if not known
	Log                    wal.Stats
}

// Shard is what one shard holds. One on its way out has no database.
type Shard struct {
	ID                        uint64
	Database, RetentionPolicy string
	DiskBytes                 int64
	Files                     int
	Rows                      int64 // about
	CacheBytes                int64 // of rows that are not flushed
	Writes, Points            int64 // since the shard was opened, those read back from the log among them
}

func (f *Figures) sum(of func(s *Shard) int64) float64 {
	n := int64(0)
	for i := range f.Shards {
		n += of(&f.Shards[i])
	}
	return float64(n)
}

// State is whether a store takes writes, and what is wrong with it.
type State struct {
	Failure  error // why no write is accepted until restart
	DiskFull bool
	Trouble  error // why the latest write or change was refused
	Catalog  error // why the catalog cannot be saved
	// Hangs is for how long the write to the log under way has lasted.
	Hangs time.Duration

	FailingShards int   // shards that could not be flushed at the last try
	Flush         error // why one of them could not

	Unopened    []error // databases that do not open
	Quarantined []repair.Quarantined
	Damaged     []*binio.CorruptError // files in service, as far as reads have met it
	LogDamage   []wal.Damage
}

// Sort brings what is wrong with files in the order of their paths.
func (s *State) Sort() {
	slices.SortFunc(s.Quarantined, func(a, b repair.Quarantined) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(s.Damaged, func(a, b *binio.CorruptError) int { return strings.Compare(a.Path, b.Path) })
}

// HangsAfter is how long a write to the log lasts until the disk counts as one that hangs.
const HangsAfter = 5 * time.Second

// Health reports whether the store takes writes, and the worst of what is wrong.
func (s State) Health() (ok bool, message string) {
	switch {
	case s.Failure != nil:
		return false, s.Failure.Error()
	case s.DiskFull:
		return false, "disk full: writes are refused until there is space, queries and deletes are answered"
	case s.Hangs > HangsAfter:
		return false, fmt.Sprintf("the disk hangs: a write to the log has lasted %s; queries are answered from what memory and disk give", s.Hangs.Round(time.Second))
	case s.Trouble != nil:
		return false, fmt.Sprintf("the latest write or change was refused: %v; queries are answered", s.Trouble)
	}
	ready := "ready for queries and writes"
	if s.Degraded() {
		ready = "degraded: " + ready
	}
	switch {
	case s.FailingShards > 0:
		return true, fmt.Sprintf("%s; %d shards cannot be flushed, which is tried again: %v", ready, s.FailingShards, s.Flush)
	case s.Catalog != nil:
		return true, fmt.Sprintf("%s; the catalog cannot be saved, which is tried again: %v", ready, s.Catalog)
	case len(s.Unopened) > 0:
		return true, fmt.Sprintf("%s; %d databases do not open, the first: %v", ready, len(s.Unopened), s.Unopened[0])
	case len(s.Quarantined) > 0:
		return true, fmt.Sprintf("%s; %d files or directories are in quarantine, the first: %s: %s", ready, len(s.Quarantined), s.Quarantined[0].Path, s.Quarantined[0].Reason)
	case len(s.Damaged) > 0:
		return true, fmt.Sprintf("%s; %d files have damage that queries may meet, the first: %v", ready, len(s.Damaged), s.Damaged[0])
	}
	harmless := ""
	for _, d := range s.LogDamage {
		text := fmt.Sprintf("%s; the log was found damaged at start: %s at offset %d: %s", ready, d.Segment, d.Offset, d.Reason)
		switch {
		case d.Torn:
		case d.Harmless:
			harmless = text + "; nothing is lost"
		default:
			return true, text
		}
	}
	if harmless != "" {
		return true, harmless
	}
	return true, ready
}

// Degraded reports whether damage makes queries fail.
func (s State) Degraded() bool {
	return len(s.Unopened) > 0 || len(s.Damaged) > 0 ||
		slices.ContainsFunc(s.Quarantined, func(q repair.Quarantined) bool { return q.Loss.Rows() }) ||
		slices.ContainsFunc(s.LogDamage, func(d wal.Damage) bool { return !d.Torn && !d.Harmless })
}

// LogSpans returns how many spans of the log were found damaged at the start, torn
// tails left out.
func (s *State) LogSpans() (n int) {
	for _, d := range s.LogDamage {
		if !d.Torn {
			n++
		}
	}
	return n
}

// FirstDamage returns the path of the first file that is damaged or was set aside,
// "" if there is none.
func (s *State) FirstDamage() string {
	switch {
	case len(s.Quarantined) > 0:
		return s.Quarantined[0].Path
	case len(s.Damaged) > 0:
		return s.Damaged[0].Path
	}
	for _, d := range s.LogDamage {
		if !d.Torn {
			return d.Segment
		}
	}
	return ""
}
