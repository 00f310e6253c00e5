package server

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/certificate"
)

// soon is how long before the end of a certificate the log says so.
const soon = 30 * 24 * time.Hour

// certificates are those that a server shows. They are its metrics of certificates.
type certificates struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		all []shown
	}
}

// shown is a certificate in use.
type shown struct {
	use string // api, nodes or inputs
	*certificate.Pair
}

// add notes certificates of a use.
func (c *certificates) add(use string, list ...*certificate.Pair) {
	for _, pair := range list {
		one := shown{use, pair}
		one.warn(c.log)
		c.mu.Lock()
		c.mu.all = append(c.mu.all, one)
		c.mu.Unlock()
	}
}

// list returns all so far. What reads files does so without the lock: the metrics do not
// wait for a disk that hangs.
func (c *certificates) list() []shown {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.all)
}

// reload reads the files of all again. changed has a word for each that is another one.
func (c *certificates) reload() (changed []string) {
	for _, one := range c.list() {
		replaced, err := one.Reload()
		if err != nil {
			c.log.Error("certificate not reloaded, the old one stays", "use", one.use, "err", err)
		}
		if replaced {
			changed = append(changed, "certificate")
		}
		one.warn(c.log)
	}
	return changed
}

// warn logs that the certificate expires soon, or has expired.
func (s shown) warn(log *slog.Logger) {
	switch end := s.NotAfter(); {
	case time.Until(end) <= 0:
		log.Warn("certificate has expired", "use", s.use, "path", s.Path(), "expires", end)
	case time.Until(end) < soon:
		log.Warn("certificate expires soon", "use", s.use, "path", s.Path(), "expires", end)
	}
}

var expiryDesc = prometheus.NewDesc("tsdbd_certificate_not_after_timestamp_seconds",
	"When the certificate expires, in seconds since 1970. Of several certificates of a use, the first that does.", []string{"use"}, nil)

// Describe implements prometheus.Collector.
func (c *certificates) Describe(ch chan<- *prometheus.Desc) { ch <- expiryDesc }

// Collect implements prometheus.Collector.
func (c *certificates) Collect(ch chan<- prometheus.Metric) {
	first := map[string]time.Time{}
	for _, one := range c.list() {
		end := one.NotAfter()
		if least, known := first[one.use]; !known || end.Before(least) {
			first[one.use] = end
		}
	}
	for use, end := range first {
		ch <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(end.Unix()), use)
	}
}
