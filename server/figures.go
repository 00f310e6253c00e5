package server

import (
	"context"
	"net/http"
	"runtime"
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/httpapi/operations"
	"tsdbd/internal/version"
	"tsdbd/services/recorder"
)

// buildInfo returns the metric whose labels say what runs.
func (s *Server) buildInfo() prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tsdbd_build_info", Help: "1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{
			"version": s.Version, "revision": version.Of().Commit,
			"goversion": runtime.Version(), "goos": runtime.GOOS, "goarch": runtime.GOARCH,
		},
	})
	build.Set(1)
	return build
}

// recorded are the figures that the page plots. Those with total count since the start.
var recorded = []recorder.Figure{"points_written_total", "requests_total", "queries_total", "queries_running", "heap_bytes"}

// readRecorded sets the values of recorded.
func (s *Server) readRecorded(values []float64) {
	points, requests := s.handler.Counts()
	values[0], values[1] = float64(points), float64(requests)
	queries := s.executor.Queries().Figures()
	values[2], values[3] = float64(queries.Executed), float64(queries.Active)
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(heap)
	values[4] = float64(heap[0].Value.Uint64() + heap[1].Value.Uint64())
}

// openRecorder records figures until the server closes.
func (s *Server) openRecorder() error {
	s.recorder = recorder.New(recorded, s.readRecorded)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.recorder.Run(ctx)
	}()
	s.onClose(quiet(func() {
		cancel()
		<-ended
	}))
	return nil
}

// figures answers with the figures of the last hour.
func (s *Server) figures(w http.ResponseWriter, r *http.Request) {
	operations.Figures(s.recorder)(w, r)
}
