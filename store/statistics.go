package store

import (
	"slices"

	"tsdbd/shard"
	"tsdbd/wal"
)

// ShardStatistics is what one shard holds.
type ShardStatistics struct {
	ID                        uint64
	Database, RetentionPolicy string
	DiskBytes                 int64
	Files                     int
	CacheBytes                int64 // of rows that are not flushed
	Writes, Points            int64 // since the shard was opened, those read back from the log among them
}

// Statistics is what the engine did since it was opened, and what it holds.
type Statistics struct {
	Shards []ShardStatistics // by id

	Flushes, FlushFailures, FlushNanos               int64
	Compactions, CompactionFailures, CompactionNanos int64
	Merges                                           [shard.Levels]int64 // published, by the level of their result
	Compacting                                       bool
	QueueFiles                                       int64 // that the next merge of each shard would read
	Log                                              wal.Stats
}

// Statistics returns the present figures.
func (s *Store) Statistics() Statistics {
	c := &s.counters
	out := Statistics{
		Flushes: c.flushes.Load(), FlushFailures: c.flushFailures.Load(), FlushNanos: c.flushNanos.Load(),
		Compactions: c.compactions.Load(), CompactionFailures: c.compactionFailures.Load(), CompactionNanos: c.compactionNanos.Load(),
		Compacting: s.compacting.Load() > 0, Log: s.log.Stats(),
	}
	for n := range out.Merges {
		out.Merges[n] = c.files.Merges[n].Load()
	}
	catalog := s.Catalog()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, e := range s.mu.shards {
		at, ok := catalog.Shard(id)
		if !ok {
			continue // on its way out
		}
		one := ShardStatistics{ID: id, Database: at.Database.Name, RetentionPolicy: at.Policy.Name, CacheBytes: e.Bytes()}
		one.DiskBytes, one.Files = e.DiskBytes()
		one.Writes, one.Points = e.Applied()
		out.QueueFiles += int64(e.CompactionQueue(s.cold(e)))
		out.Shards = append(out.Shards, one)
	}
	slices.SortFunc(out.Shards, func(a, b ShardStatistics) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}
