package scrub

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Path is that of the HTTP API: GET answers with a Status, POST calls Start before.
const Path = "/api/tsdbd/scrub"

// Status is what a Service does and has found.
type Status struct {
	Started     time.Time `json:"started"` // when Start was called, zero if it was not since the server's start
	Running     bool      `json:"running"` // all that Start asked for is not yet done
	Part        string    `json:"part"`    // that is read now, "" if none is
	Bytes       int64     `json:"bytes"`   // read since Start was called
	TotalBytes  int64     `json:"total_bytes"`
	OldestCheck time.Time `json:"oldest_check"` // every part was checked then or later
	// Damage is what was found since the server's start. What was healed goes with the next Start.
	Damage   []Damage          `json:"damage"`
	Problems map[string]string `json:"problems"` // parts that could not be read
	// Healing says that something that is not healed may be soon.
	Healing bool `json:"healing"`
}

// Damage is a damaged file.
type Damage struct {
	Part   string    `json:"part"`
	Path   string    `json:"path"`
	Offset int64     `json:"offset"` // -1: not known
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Healed bool      `json:"healed"` // a later check has found it sound, or it was written again
}

// Status returns what the service does and has found.
func (s *Service) Status() Status {
	reported := s.reported()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Started: s.mu.started, Running: s.runningLocked(), Part: s.mu.part, Bytes: s.pacer.read.Load() - s.mu.before, TotalBytes: s.mu.size,
		Damage: slices.Clone(s.mu.damage), Problems: map[string]string{},
	}
	for part, why := range s.mu.problems {
		st.Problems[part] = why
	}
	for _, at := range s.mu.checked {
		if st.OldestCheck.IsZero() || at.Before(st.OldestCheck) {
			st.OldestCheck = at
		}
	}
	for p, a := range s.mu.again {
		st.Healing = st.Healing || a.wait > 0 && (s.opt.Heals || !reported[p])
	}
	return st
}

// ServeHTTP answers requests for Path.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.Start()
	case http.MethodGet, http.MethodHead:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, `{"error":"method not allowed"}`, http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Status()) // the client is gone
}

var (
	readDesc     = prometheus.NewDesc("tsdbd_scrub_read_bytes_total", "Bytes read to find damage at rest.", nil, nil)
	ageDesc      = prometheus.NewDesc("tsdbd_scrub_oldest_check_seconds", "How long ago the file was checked whose check was longest ago.", nil, nil)
	foundDesc    = prometheus.NewDesc("tsdbd_scrub_damaged_files_total", "Damage that checks of data at rest have found.", nil, nil)
	failuresDesc = prometheus.NewDesc("tsdbd_scrub_failures_total", "Checks of data at rest that could not read all, and are repeated.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readDesc, ageDesc, foundDesc, failuresDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	st, age := s.Status(), 0.0
	if !st.OldestCheck.IsZero() {
		age = s.opt.Now().Sub(st.OldestCheck).Seconds()
	}
	s.mu.Lock()
	found, failures := s.mu.found, s.mu.failures
	s.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(readDesc, prometheus.CounterValue, float64(s.pacer.read.Load()))
	ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, age)
	ch <- prometheus.MustNewConstMetric(foundDesc, prometheus.CounterValue, float64(found))
	ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(failures))
}
