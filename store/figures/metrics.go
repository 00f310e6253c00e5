package figures

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/shard/counters"
)

// figure is one metric of a store.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(f *Figures) float64
}

func counter(name, help string, read func(f *Figures) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, read}
}

func gauge(name, help string, read func(f *Figures) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, read}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// level is a counter of one level of compaction.
func level(name, help string, n int, read func(f *Figures) float64) figure {
	return figure{prometheus.NewDesc(name, help, nil, prometheus.Labels{"level": strconv.Itoa(n)}), prometheus.CounterValue, read}
}

// levels returns the counters of all levels of compaction.
func levels() (out []figure) {
	for n := range counters.Levels {
		out = append(out,
			level("tsdbd_compaction_merges_total", "Merges published, by the level of their result; 9 is full.", n, func(f *Figures) float64 { return float64(f.Merges[n]) }),
			level("tsdbd_compaction_level_written_bytes_total", "Bytes of TSM files that merges wrote, by the level of their result.", n, func(f *Figures) float64 { return float64(f.MergeBytes[n]) }),
		)
	}
	return out
}

var table = append([]figure{
	counter("tsdbd_store_points_written_total", "Points made durable.", func(f *Figures) float64 { return float64(f.Points) }),
	counter("tsdbd_store_values_written_total", "Field values made durable.", func(f *Figures) float64 { return float64(f.Values) }),
	counter("tsdbd_store_points_dropped_total", "Points dropped for good by partial writes.", func(f *Figures) float64 { return float64(f.Dropped) }),
	counter("tsdbd_store_points_over_limit_total", "Points dropped because their series would be one too many, by max-series-per-database or max-values-per-tag.", func(f *Figures) float64 { return float64(f.Over) }),
	counter("tsdbd_store_points_refused_total", "Points refused for lack of memory; clients send them again.", func(f *Figures) float64 { return float64(f.Refused) }),
	counter("tsdbd_store_points_failed_total", "Points not written because the disk is full or the log failed; clients send them again.", func(f *Figures) float64 { return float64(f.Failed) }),
	counter("tsdbd_store_moves_total", "Statements that gave series or fields other names, refused ones included.", func(f *Figures) float64 { return float64(f.Moves) }),
	counter("tsdbd_store_deletes_total", "Deletes logged and applied.", func(f *Figures) float64 { return float64(f.Deletes) }),
	counter("tsdbd_store_exemplars_written_total", "Exemplars kept.", func(f *Figures) float64 { return float64(f.Exemplars) }),
	counter("tsdbd_store_exemplars_out_of_order_total", "Exemplars left out because their series has later ones.", func(f *Figures) float64 { return float64(f.OlderExemplars) }),
	gauge("tsdbd_store_exemplars", "Exemplars in memory.", func(f *Figures) float64 { return float64(f.ExemplarsHeld) }),
	gauge("tsdbd_store_exemplar_bytes", "Memory of the exemplars.", func(f *Figures) float64 { return float64(f.ExemplarBytes) }),
	gauge("tsdbd_store_databases", "Open databases.", func(f *Figures) float64 { return float64(f.Databases) }),
	gauge("tsdbd_store_series", "Series ever made, in all databases.", func(f *Figures) float64 { return float64(f.Series) }),
	gauge("tsdbd_store_read_only", "1 after a failed write or sync of the log, until restart.", func(f *Figures) float64 { return boolean(f.Failure != nil) }),
	gauge("tsdbd_store_disk_full", "1 while writes are refused because the disk is full.", func(f *Figures) float64 { return boolean(f.DiskFull) }),
	gauge("tsdbd_store_disk_free_bytes", "Bytes that can still be written to the disk of the data directory; -1 if not known.", func(f *Figures) float64 { return float64(f.DiskFree) }),
	gauge("tsdbd_shard_open", "Open shards.", func(f *Figures) float64 { return float64(len(f.Shards)) }),
	gauge("tsdbd_shard_disk_bytes", "Bytes of the shards' files.", func(f *Figures) float64 { return f.sum(func(s *Shard) int64 { return s.DiskBytes }) }),
	gauge("tsdbd_shard_quarantined_files", "Damaged files and unknown directories that were set aside; the directories named quarantine tell why.", func(f *Figures) float64 { return float64(len(f.Quarantined)) }),
	gauge("tsdbd_store_refused_databases", "Databases that do not open because their files contradict the catalog or the log.", func(f *Figures) float64 { return float64(len(f.Unopened)) }),
	gauge("tsdbd_shard_damaged_files", "Files in service that have damage, as far as reads have met it since the start.", func(f *Figures) float64 { return float64(len(f.Damaged)) }),
	gauge("tsdbd_shard_files", "Number of the shards' files.", func(f *Figures) float64 { return f.sum(func(s *Shard) int64 { return int64(s.Files) }) }),
	gauge("tsdbd_cache_bytes", "Memory of all caches.", func(f *Figures) float64 { return f.sum(func(s *Shard) int64 { return s.CacheBytes }) }),
	gauge("tsdbd_store_series_table_bytes", "Memory of the series that parsers remember.", func(f *Figures) float64 { return float64(f.TableBytes) }),
	gauge("tsdbd_cache_limit_bytes", "Memory of all caches above which writes are refused.", func(f *Figures) float64 { return float64(f.CacheLimit) }),
	counter("tsdbd_flush_started_total", "Flushes begun.", func(f *Figures) float64 { return float64(f.Flushes) }),
	counter("tsdbd_flush_failed_total", "Flushes that failed and are tried again.", func(f *Figures) float64 { return float64(f.FlushFailures) }),
	gauge("tsdbd_flush_failing_shards", "Shards whose last flush failed; their points are in memory and in the log.", func(f *Figures) float64 { return float64(f.FailingShards) }),
	counter("tsdbd_flush_seconds_total", "Time spent in flushes.", func(f *Figures) float64 { return f.FlushTime.Seconds() }),
	counter("tsdbd_compaction_finished_total", "Compactions finished.", func(f *Figures) float64 { return float64(f.Compactions) }),
	counter("tsdbd_compaction_failed_total", "Compactions that failed and are tried again later.", func(f *Figures) float64 { return float64(f.CompactionFailures) }),
	counter("tsdbd_compaction_seconds_total", "Time spent in compactions.", func(f *Figures) float64 { return f.CompactionTime.Seconds() }),
	counter("tsdbd_compaction_bytes_read_total", "Bytes of chunks that merges read.", func(f *Figures) float64 { return float64(f.MergeReadBytes) }),
	counter("tsdbd_compaction_bytes_written_total", "Bytes of TSM files that merges wrote.", func(f *Figures) float64 { return float64(f.MergeWrittenBytes) }),
	gauge("tsdbd_compaction_active", "1 while a merge runs or is looked for.", func(f *Figures) float64 { return boolean(f.Compacting) }),
	gauge("tsdbd_compaction_queue_files", "Files that the next merge of each shard would read: the backlog.", func(f *Figures) float64 { return float64(f.QueueFiles) }),
	counter("tsdbd_flush_bytes_total", "Bytes of TSM files that flushes wrote.", func(f *Figures) float64 { return float64(f.FlushBytes) }),
	counter("tsdbd_wal_written_bytes_total", "Bytes written to the log.", func(f *Figures) float64 { return float64(f.Log.BytesWritten) }),
	counter("tsdbd_wal_entries_total", "Entries made durable.", func(f *Figures) float64 { return float64(f.Log.Entries) }),
	counter("tsdbd_wal_syncs_total", "Syncs of the log.", func(f *Figures) float64 { return float64(f.Log.Syncs) }),
	counter("tsdbd_wal_sync_seconds_total", "Time spent in syncs of the log.", func(f *Figures) float64 { return f.Log.SyncTime.Seconds() }),
	counter("tsdbd_series_ids_skipped_total", "Ids of series that were given and that a damaged series.log does not know. They are not given again.", func(f *Figures) float64 { return float64(f.SkippedIDs) }),
	gauge("tsdbd_wal_hang_seconds", "For how long the write or sync of the log under way has lasted; 0: there is none.", func(f *Figures) float64 { return f.Hangs.Seconds() }),
	gauge("tsdbd_wal_segments", "Segments of the log.", func(f *Figures) float64 { return float64(f.Log.Segments) }),
	gauge("tsdbd_wal_disk_bytes", "Bytes of the log's segments.", func(f *Figures) float64 { return float64(f.Log.DiskBytes) }),
	gauge("tsdbd_wal_damaged_spans", "Spans of the log found damaged at start, torn tails left out.", func(f *Figures) float64 { return float64(f.LogSpans()) }),
}, levels()...)

// Describe sends the descriptions of all metrics.
func Describe(ch chan<- *prometheus.Desc) {
	for _, f := range table {
		ch <- f.desc
	}
}

// Collect sends all metrics.
func (f *Figures) Collect(ch chan<- prometheus.Metric) {
	for _, m := range table {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(f))
	}
}
