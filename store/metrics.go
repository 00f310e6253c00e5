package store

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/shard"
)

// figure is one metric of the store: read is called at every scrape.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(t *totals) float64
}

// totals is what one scrape reads of the store.
type totals struct {
	s                                    *Store
	cacheBytes, diskBytes, files, shards int64
	databases, series, refused           int64
	queue                                int64 // files that the next merges would read
}

func counter(name, help string, read func(t *totals) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, read}
}

func gauge(name, help string, read func(t *totals) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, read}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// level is a counter of one level of compaction.
func level(name, help string, n int, read func(t *totals) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, prometheus.Labels{"level": strconv.Itoa(n)}), prometheus.CounterValue, read}
}

// levels returns the counters of all levels of compaction.
func levels() (out []figure) {
	for n := range shard.Levels {
		out = append(out,
			level("tsdbd_compaction_merges_total", "Merges published, by the level of their result; 9 is full.", n, func(t *totals) float64 { return float64(t.s.counters.files.Merges[n].Load()) }),
			level("tsdbd_compaction_level_written_bytes_total", "Bytes of TSM files that merges wrote, by the level of their result.", n, func(t *totals) float64 { return float64(t.s.counters.files.WriteBytes[n].Load()) }),
		)
	}
	return out
}

var figures = append([]figure{
	counter("tsdbd_store_points_written_total", "Points made durable.", func(t *totals) float64 { return float64(t.s.counters.points.Load()) }),
	counter("tsdbd_store_values_written_total", "Field values made durable.", func(t *totals) float64 { return float64(t.s.counters.values.Load()) }),
	counter("tsdbd_store_points_dropped_total", "Points dropped for good by partial writes.", func(t *totals) float64 { return float64(t.s.counters.dropped.Load()) }),
	counter("tsdbd_store_points_over_limit_total", "Points dropped because their series would be one too many, by max-series-per-database or max-values-per-tag.", func(t *totals) float64 { return float64(t.s.counters.over.Load()) }),
	counter("tsdbd_store_points_refused_total", "Points refused for want of memory; clients send them again.", func(t *totals) float64 { return float64(t.s.counters.refused.Load()) }),
	counter("tsdbd_store_points_failed_total", "Points not written because the disk is full or the log failed; clients send them again.", func(t *totals) float64 { return float64(t.s.counters.failed.Load()) }),
	counter("tsdbd_store_deletes_total", "Deletes logged and applied.", func(t *totals) float64 { return float64(t.s.counters.deletes.Load()) }),
	gauge("tsdbd_store_databases", "Open databases.", func(t *totals) float64 { return float64(t.databases) }),
	gauge("tsdbd_store_series", "Series ever made, in all databases.", func(t *totals) float64 { return float64(t.series) }),
	gauge("tsdbd_store_read_only", "1 after a failed write or sync of the log, until restart.", func(t *totals) float64 { return boolean(t.s.failure.Load() != nil) }),
	gauge("tsdbd_store_disk_full", "1 while writes are refused because the disk is full.", func(t *totals) float64 { return boolean(t.s.diskIsFull()) }),
	gauge("tsdbd_store_disk_free_bytes", "Bytes that can still be written to the disk of the data directory; -1 if not known.", func(t *totals) float64 {
		free, err := t.s.fs.Free(t.s.dir)
		if err != nil {
			return -1
		}
		return float64(free)
	}),
	gauge("tsdbd_shard_open", "Open shards.", func(t *totals) float64 { return float64(t.shards) }),
	gauge("tsdbd_shard_disk_bytes", "Bytes of the shards' files.", func(t *totals) float64 { return float64(t.diskBytes) }),
	gauge("tsdbd_shard_quarantined_files", "Damaged files and unknown directories that were set aside; the directories named quarantine tell why.", func(t *totals) float64 { return float64(len(t.s.quarantined())) }),
	gauge("tsdbd_store_refused_databases", "Databases that do not open because their files contradict the catalog or the log.", func(t *totals) float64 { return float64(t.refused) }),
	gauge("tsdbd_shard_damaged_files", "Files in service that have damage, as far as reads have met it since the start.", func(t *totals) float64 { return float64(len(t.s.damaged())) }),
	gauge("tsdbd_shard_files", "Number of the shards' files.", func(t *totals) float64 { return float64(t.files) }),
	gauge("tsdbd_cache_bytes", "Memory of all caches.", func(t *totals) float64 { return float64(t.cacheBytes) }),
	gauge("tsdbd_store_series_table_bytes", "Memory of the series that parsers remember.", func(t *totals) float64 { return float64(t.s.tables.Load()) }),
	gauge("tsdbd_cache_limit_bytes", "Memory of all caches above which writes are refused.", func(t *totals) float64 { return float64(t.s.opt.CacheBytes) }),
	counter("tsdbd_flush_started_total", "Flushes begun.", func(t *totals) float64 { return float64(t.s.counters.flushes.Load()) }),
	counter("tsdbd_flush_failed_total", "Flushes that failed and are tried again.", func(t *totals) float64 { return float64(t.s.counters.flushFailures.Load()) }),
	gauge("tsdbd_flush_failing_shards", "Shards whose last flush failed; their points are in memory and in the log.", func(t *totals) float64 {
		n, _ := t.s.failingFlushes()
		return float64(n)
	}),
	counter("tsdbd_flush_seconds_total", "Time spent in flushes.", func(t *totals) float64 { return time.Duration(t.s.counters.flushNanos.Load()).Seconds() }),
	counter("tsdbd_compaction_finished_total", "Compactions finished.", func(t *totals) float64 { return float64(t.s.counters.compactions.Load()) }),
	counter("tsdbd_compaction_failed_total", "Compactions that failed and are tried again later.", func(t *totals) float64 { return float64(t.s.counters.compactionFailures.Load()) }),
	counter("tsdbd_compaction_seconds_total", "Time spent in compactions.", func(t *totals) float64 { return time.Duration(t.s.counters.compactionNanos.Load()).Seconds() }),
	counter("tsdbd_compaction_bytes_read_total", "Bytes of chunks that merges read.", func(t *totals) float64 { return float64(t.s.counters.files.Read()) }),
	counter("tsdbd_compaction_bytes_written_total", "Bytes of TSM files that merges wrote.", func(t *totals) float64 { return float64(t.s.counters.files.Written()) }),
	gauge("tsdbd_compaction_active", "1 while a merge runs or is looked for.", func(t *totals) float64 { return float64(t.s.compacting.Load()) }),
	gauge("tsdbd_compaction_queue_files", "Files that the next merge of each shard would read: the backlog.", func(t *totals) float64 { return float64(t.queue) }),
	counter("tsdbd_flush_bytes_total", "Bytes of TSM files that flushes wrote.", func(t *totals) float64 { return float64(t.s.counters.files.FlushBytes.Load()) }),
	counter("tsdbd_wal_written_bytes_total", "Bytes written to the log.", func(t *totals) float64 { return float64(t.s.log.Stats().BytesWritten) }),
	counter("tsdbd_wal_entries_total", "Entries made durable.", func(t *totals) float64 { return float64(t.s.log.Stats().Entries) }),
	counter("tsdbd_wal_syncs_total", "Syncs of the log.", func(t *totals) float64 { return float64(t.s.log.Stats().Syncs) }),
	counter("tsdbd_wal_sync_seconds_total", "Time spent in syncs of the log.", func(t *totals) float64 { return t.s.log.Stats().SyncTime.Seconds() }),
	gauge("tsdbd_wal_segments", "Segments of the log.", func(t *totals) float64 { return float64(t.s.log.Stats().Segments) }),
	gauge("tsdbd_wal_disk_bytes", "Bytes of the log's segments.", func(t *totals) float64 { return float64(t.s.log.Stats().DiskBytes) }),
	gauge("tsdbd_wal_damaged_spans", "Spans of the log found damaged at start, torn tails left out.", func(t *totals) float64 {
		n := 0
		for _, d := range t.s.log.Damage() {
			if !d.Torn {
				n++
			}
		}
		return float64(n)
	}),
}, levels()...)

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range figures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	t := totals{s: s}
	s.mu.RLock()
	for _, e := range s.mu.shards {
		t.shards++
		t.cacheBytes += e.Bytes()
		bytes, files := e.DiskBytes()
		t.diskBytes += bytes
		t.files += int64(files)
		t.queue += int64(e.CompactionQueue(s.cold(e)))
	}
	t.refused = int64(len(s.mu.refused))
	for _, db := range s.mu.databases {
		t.databases++
		t.series += int64(db.series.Len())
	}
	s.mu.RUnlock()
	for _, f := range figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.read(&t))
	}
}
