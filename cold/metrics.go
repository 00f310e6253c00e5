package cold

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/binio"
	"tsdbd/internal/object"
)

// isDamage reports whether an error is of an object, not of the way to it.
func isDamage(err error) bool {
	return errors.Is(err, binio.ErrCorrupt) || errors.Is(err, object.ErrNotFound)
}

var (
	bytesDesc    = prometheus.NewDesc("tsdbd_cold_bytes", "Size of the files of shards that are in the cold store.", nil, nil)
	objectsDesc  = prometheus.NewDesc("tsdbd_cold_objects", "Objects in the cold store that shards need.", nil, nil)
	unneededDesc = prometheus.NewDesc("tsdbd_cold_unneeded_objects", "Objects in the cold store that nobody needs, as of the last sweep.", nil, nil)
	failingDesc  = prometheus.NewDesc("tsdbd_cold_failing", "1 if the cold store cannot be kept, 0 if it can.", nil, nil)
	uploadsDesc  = prometheus.NewDesc("tsdbd_cold_uploads_total", "Files uploaded to the cold store.", nil, nil)
	uploadedDesc = prometheus.NewDesc("tsdbd_cold_upload_bytes_total", "Bytes uploaded to the cold store.", nil, nil)
	failuresDesc = prometheus.NewDesc("tsdbd_cold_upload_failures_total", "Uploads to the cold store that failed, and are tried again.", nil, nil)
	removedDesc  = prometheus.NewDesc("tsdbd_cold_removed_objects_total", "Objects removed from the cold store.", nil, nil)
	purgesDesc   = prometheus.NewDesc("tsdbd_cold_purged_shards_total", "Shards whose deleted rows were taken out of the cold store.", nil, nil)
	hitsDesc     = prometheus.NewDesc("tsdbd_cold_cache_hits_total", "Ranges of objects that reads found in the cache on disk.", nil, nil)
	missesDesc   = prometheus.NewDesc("tsdbd_cold_cache_misses_total", "Ranges of objects that reads waited for.", nil, nil)
	requestsDesc = prometheus.NewDesc("tsdbd_cold_reads_total", "Requests of reads to the cold store.", nil, nil)
	errorsDesc   = prometheus.NewDesc("tsdbd_cold_read_failures_total", "Requests of reads to the cold store that failed, and were tried again or failed a query.", nil, nil)
	fetchedDesc  = prometheus.NewDesc("tsdbd_cold_read_bytes_total", "Bytes that reads have fetched from the cold store.", nil, nil)
	cachedDesc   = prometheus.NewDesc("tsdbd_cold_cache_bytes", "Disk space of the cache of objects.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		bytesDesc, objectsDesc, unneededDesc, failingDesc, uploadsDesc, uploadedDesc, failuresDesc, removedDesc, purgesDesc,
		hitsDesc, missesDesc, requestsDesc, errorsDesc, fetchedDesc, cachedDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v int64) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v))
	}
	held, _ := s.held(context.Background()) // what does not open is told elsewhere
	s.mu.Lock()
	c, unneeded, failing := s.mu.Counters, len(s.mu.state.Unneeded), int64(0)
	if s.mu.failed != nil {
		failing = 1
	}
	s.mu.Unlock()
	send(bytesDesc, prometheus.GaugeValue, held.Bytes)
	send(objectsDesc, prometheus.GaugeValue, int64(len(held.Cold)))
	send(unneededDesc, prometheus.GaugeValue, int64(unneeded))
	send(failingDesc, prometheus.GaugeValue, failing)
	send(uploadsDesc, prometheus.CounterValue, c.Uploads)
	send(uploadedDesc, prometheus.CounterValue, c.UploadedBytes)
	send(failuresDesc, prometheus.CounterValue, c.UploadFailures)
	send(removedDesc, prometheus.CounterValue, c.Removed)
	send(purgesDesc, prometheus.CounterValue, c.Purges)
	if s.opt.Cache == nil {
		return
	}
	k := s.opt.Cache()
	send(hitsDesc, prometheus.CounterValue, k.Hits)
	send(missesDesc, prometheus.CounterValue, k.Misses)
	send(requestsDesc, prometheus.CounterValue, k.Gets)
	send(errorsDesc, prometheus.CounterValue, k.Errors)
	send(fetchedDesc, prometheus.CounterValue, k.BytesFetched)
	send(cachedDesc, prometheus.GaugeValue, k.BytesCached)
}
