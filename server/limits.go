package server

import (
	"time"

	"tsdbd/config"
	"tsdbd/httpapi"
	promql "tsdbd/prom/engine"
	"tsdbd/query/admission"
	"tsdbd/store"
)

func storeLimits(c *config.Config) store.Limits {
	return store.Limits{
		CompactBytesPerSecond:   int64(c.Data.CompactThroughput),
		MaxSeriesPerDatabase:    c.Data.MaxSeriesPerDatabase,
		MaxValuesPerTag:         c.Data.MaxValuesPerTag,
		MaxFieldsPerMeasurement: c.Data.MaxFieldsPerMeasurement,
		ValidateKeys:            c.Data.ValidateKeys,
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

func promqlLimits(c *config.Config) promql.Limits {
	return promql.Limits{Lookback: time.Duration(c.Prometheus.LookbackDelta), Experimental: c.Prometheus.ExperimentalPromQL}
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
		PrometheusDatabase:  c.Prometheus.Database,
	}
	if limit := time.Duration(c.Query.QueryTimeout); limit > 0 {
		l.PositionWait = min(limit, httpapi.DefaultPositionWait)
	}
	if l.MaxBodySize == 0 {
		l.MaxBodySize = -1 // the file's 0 is no bound
	}
	return l
}
