package server

import (
	"slices"
	"strconv"
	"strings"

	"tsdbd/model"
	"tsdbd/query/show"
	"tsdbd/services/continuous"
	"tsdbd/services/subscriber"
	"tsdbd/store"
)

// statistics returns what SHOW STATS shows in addition to the executor's, by
// name. It is called after everything is open.
func (s *Server) statistics() []show.Statistic {
	all := slices.Concat(writeStatistics(s.handler.Statistics(), s.subscribers), s.inputs.statistics(), storeStatistics(s.store),
		[]show.Statistic{continuousStatistic(s.continuous)}, subscriberStatistics(s.subscribers))
	if s.node != nil {
		all = append(all, clusterStatistic(s.node))
	}
	slices.SortStableFunc(all, func(a, b show.Statistic) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// storeStatistics is what the engine counts, in InfluxDB's names where it has
// the thing: a shard's cache and files, flushes as cache compactions, and the
// one log of all shards.
func storeStatistics(st *store.Store) []show.Statistic {
	s := st.Figures()
	var all []show.Statistic
	for _, sh := range s.Shards {
		if sh.Database == "" {
			continue // on its way out
		}
		tags := model.Tags{
			{Key: "database", Value: sh.Database},
			{Key: "id", Value: strconv.FormatUint(sh.ID, 10)},
			{Key: "retentionPolicy", Value: sh.RetentionPolicy},
		}
		all = append(all,
			show.Statistic{Name: "shard", Tags: tags, Values: map[string]any{
				"diskBytes": sh.DiskBytes, "writeReq": sh.Writes, "writeReqOk": sh.Writes, "writePointsOk": sh.Points,
			}},
			show.Statistic{Name: "tsm1_cache", Tags: tags, Values: map[string]any{"memBytes": sh.CacheBytes, "writeOk": sh.Writes}},
			show.Statistic{Name: "tsm1_filestore", Tags: tags, Values: map[string]any{"diskBytes": sh.DiskBytes, "numFiles": int64(sh.Files)}},
		)
	}
	full := len(s.Merges) - 1
	engine := map[string]any{
		"cacheCompactions": s.Flushes, "cacheCompactionErr": s.FlushFailures, "cacheCompactionDuration": int64(s.FlushTime),
		"tsmFullCompactions": s.Merges[full], "tsmFullCompactionErr": s.CompactionFailures, "tsmFullCompactionDuration": int64(s.CompactionTime),
		"tsmFullCompactionsActive": int64(0), "tsmFullCompactionQueue": s.QueueFiles,
	}
	if s.Compacting {
		engine["tsmFullCompactionsActive"] = int64(1)
	}
	for level := 1; level <= 3; level++ {
		engine["tsmLevel"+strconv.Itoa(level)+"Compactions"] = s.Merges[level]
	}
	segment := int64(0)
	if s.Log.Segments > 0 {
		segment = s.Log.DiskBytes / int64(s.Log.Segments+s.Log.Spares)
	}
	return append(all,
		show.Statistic{Name: "tsm1_engine", Values: engine},
		show.Statistic{Name: "tsm1_wal", Values: map[string]any{
			"currentSegmentDiskBytes": segment, "oldSegmentsDiskBytes": s.Log.DiskBytes - segment,
			"writeOk": int64(s.Log.Entries), "writeErr": int64(s.Log.Refused),
		}},
	)
}

// damageDiagnostic is the table "damage" of SHOW DIAGNOSTICS.
func damageDiagnostic(st *store.Store) []show.Diagnostic {
	d := st.State()
	return []show.Diagnostic{{
		Name: "damage", Columns: []string{"damagedFiles", "first", "logSpans", "quarantinedFiles"},
		Values: []any{int64(len(d.Damaged)), d.FirstDamage(), int64(d.LogSpans()), int64(len(d.Quarantined))},
	}}
}

// writeStatistics adds to the handler's statistics what of its writes went to
// subscribers: InfluxDB has both in one.
func writeStatistics(of []show.Statistic, s *subscriber.Service) []show.Statistic {
	c := s.Counts()
	for _, o := range of {
		if o.Name == "write" {
			o.Values["subWriteOk"], o.Values["subWriteDrop"] = int64(c.Sent), int64(c.Dropped)
		}
	}
	return of
}

// continuousStatistic is InfluxDB's cq.
func continuousStatistic(s *continuous.Service) show.Statistic {
	ok, failed := s.Counts()
	return show.Statistic{Name: "cq", Values: map[string]any{"queryOk": int64(ok), "queryFail": int64(failed)}}
}

// subscriberStatistics is InfluxDB's subscriber: one of all, and one for each
// subscription.
func subscriberStatistics(s *subscriber.Service) []show.Statistic {
	c := s.Counts()
	all := []show.Statistic{{Name: "subscriber", Values: map[string]any{
		"createFailures": int64(0), "pointsWritten": int64(c.Points), "writeFailures": int64(c.Failed + c.Dropped), "memUsage": s.QueuedBytes(),
	}}}
	for _, sub := range s.Subscriptions() {
		all = append(all, show.Statistic{Name: "subscriber", Tags: model.Tags{
			{Key: "database", Value: sub.Database},
			{Key: "mode", Value: sub.Mode},
			{Key: "name", Value: sub.Name},
			{Key: "retention_policy", Value: sub.RetentionPolicy},
		}, Values: map[string]any{
			"pointsWritten": int64(sub.Points), "writeFailures": int64(sub.Failures), "memUsage": sub.QueuedBytes,
		}})
	}
	return all
}
