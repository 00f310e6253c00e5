package server

import (
	"time"

	"tsdbd/config"
	"tsdbd/httpapi"
	"tsdbd/query/admission"
	"tsdbd/store"
)

// limitKeys are the keys that a reload applies, in addition to the level of the
// log. A change of one does not disturb requests under way.
var limitKeys = map[string]bool{
	"data.compact-throughput":         true,
	"data.max-series-per-database":    true,
	"data.max-values-per-tag":         true,
	"http.max-body-size":              true,
	"http.max-query-size":             true,
	"http.max-body-memory":            true,
	"http.max-concurrent-write-limit": true,
	"http.max-enqueued-write-limit":   true,
	"http.enqueued-write-timeout":     true,
	"http.max-row-limit":              true,
	"http.write-tracing":              true,
	"query.max-concurrent-queries":    true,
	"query.query-timeout":             true,
	"query.log-queries-after":         true,
	"query.max-select-point":          true,
	"query.max-select-series":         true,
	"query.max-select-buckets":        true,
	"query.max-memory":                true,
	"query.max-total-memory":          true,
}

func storeLimits(c *config.Config) store.Limits {
	return store.Limits{
		CompactBytesPerSecond: int64(c.Data.CompactThroughput),
		MaxSeriesPerDatabase:  c.Data.MaxSeriesPerDatabase,
		MaxValuesPerTag:       c.Data.MaxValuesPerTag,
	}
}

func queryLimits(c *config.Config) admission.Limits {
	return admission.Limits{
		MaxConcurrentQueries: c.Query.MaxConcurrentQueries,
		QueryTimeout:         time.Duration(c.Query.QueryTimeout),
		LogQueriesAfter:      time.Duration(c.Query.LogQueriesAfter),
		MaxSelectPoint:       c.Query.MaxSelectPoint,
		MaxSelectSeries:      c.Query.MaxSelectSeries,
		MaxSelectBuckets:     c.Query.MaxSelectBuckets,
		MemoryBytes:          int64(c.Query.MaxMemory),
	}
}

func httpLimits(c *config.Config) httpapi.Limits {
	l := httpapi.Limits{
		MaxBodySize:         int64(c.HTTP.MaxBodySize),
		MaxQuerySize:        c.HTTP.MaxQuerySize.Int(),
		MaxBodyMemory:       int64(c.HTTP.MaxBodyMemory),
		MaxConcurrentWrites: c.HTTP.MaxConcurrentWriteLimit,
		MaxWaitingWrites:    c.HTTP.MaxEnqueuedWriteLimit,
		WriteWait:           time.Duration(c.HTTP.EnqueuedWriteTimeout),
		MaxRowLimit:         c.HTTP.MaxRowLimit,
		WriteTracing:        c.HTTP.WriteTracing,
	}
	if l.MaxBodySize == 0 {
		l.MaxBodySize = -1 // the file's 0 is no bound
	}
	return l
}
