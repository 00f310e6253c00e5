package downsample

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/store/touched"
)

// Options adjusts a Service. Logger and the fields after Now may be zero.
type Options struct {
	Catalog func() *meta.Data
	Storage scan.Storage
	Marks   *touched.Marks
	// Applied returns the sequence of the last entry that readers see.
	Applied func() uint64
	// Execute runs a statement and passes its rows on.
	Execute func(ctx context.Context, database string, q *influxql.Query, rows func(*result.Series) error) error
	// Write stores rows. A point.PartialWrite says that some could not be stored.
	Write  func(ctx context.Context, batches []*result.IntoBatch) error
	Delete func(ctx context.Context, req scan.DeleteRequest) error
	// Complete commits windows that have been computed.
	Complete func(ctx context.Context, cmd meta.CompleteWindows) error
	Memory   *admission.Memory // of all queries, for rows that are compared; nil: no bound
	Logger   *slog.Logger      // nil discards
	Now      func() time.Time  // nil is time.Now

	Interval time.Duration // between looks at the catalog; 0: a second
	Rows     int           // that are computed at once, about; 0: the default
}

// defaultRows bounds the rows that are computed at once: some 20 MB in the query.
const defaultRows = 200_000

// Service keeps the downsamples of a catalog true. It is a prometheus.Collector.
type Service struct {
	opt Options

	next    map[uint64]time.Time     // of the loop: when a downsample is visited again
	backoff map[uint64]time.Duration // of the loop: of downsamples that fail
	stopped map[uint64]touched.Span  // of the loop: what the latest visit did not come to

	mu struct {
		sync.Mutex
		failed map[uint64]string // why the latest visit failed
	}
	failing                              failures
	computed, written, deleted, failures atomic.Uint64
}

// New returns a service.
func New(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Interval = cmp.Or(opt.Interval, time.Second)
	opt.Rows = cmp.Or(opt.Rows, defaultRows)
	s := &Service{opt: opt, stopped: map[uint64]touched.Span{}}
	s.mu.failed = map[uint64]string{}
	s.failing.list = map[uint64][]failure{}
	return s
}

// Run computes windows until ctx ends. Calls must not overlap.
func (s *Service) Run(ctx context.Context) {
	s.next, s.backoff = map[uint64]time.Time{}, map[uint64]time.Duration{}
	ticker := time.NewTicker(s.opt.Interval)
	defer ticker.Stop()
	defer s.failing.forget(nil) // another node computes
	for {
		s.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// settle is how long after its end a window is computed, and the time between two looks
// at late rows.
func settle(every time.Duration) time.Duration {
	return min(max(every/60, time.Second), time.Minute)
}

// round visits the downsamples whose time has come.
func (s *Service) round(ctx context.Context) {
	present := map[uint64]bool{}
	for db, d := range s.opt.Catalog().Downsamples() {
		present[d.ID] = true
		now := s.opt.Now()
		if at, ok := s.next[d.ID]; ok && now.Before(at) && at.Sub(now) <= time.Minute { // else the clock was ahead
			continue
		}
		err := s.visit(ctx, db, d)
		if ctx.Err() != nil {
			return
		}
		wait := settle(d.Every)
		switch {
		case errors.Is(err, errMore):
			wait = 0
			fallthrough
		case err == nil:
			delete(s.backoff, d.ID)
			s.note(d.ID, "")
		case errors.As(err, new(*refusedError)):
			delete(s.backoff, d.ID)
			s.note(d.ID, err.Error())
			s.opt.Logger.Warn("downsample: not all rows were stored", "db", db.Name, "from", d.From, "into", d.Into, "err", err)
		case errors.Is(err, errFailing):
			wait = min(max(2*s.backoff[d.ID], wait), time.Minute)
			s.backoff[d.ID] = wait
			s.note(d.ID, "")
		default:
			wait = min(max(2*s.backoff[d.ID], wait), time.Minute)
			s.backoff[d.ID] = wait
			s.failures.Add(1)
			s.note(d.ID, err.Error())
			s.opt.Logger.Error("downsample failed, it will be tried again", "db", db.Name, "from", d.From, "into", d.Into, "in", wait, "err", err)
		}
		s.next[d.ID] = s.opt.Now().Add(wait)
	}
	s.failing.forget(present)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.next {
		if !present[id] {
			delete(s.next, id)
			delete(s.backoff, id)
			delete(s.stopped, id)
			delete(s.mu.failed, id)
		}
	}
}

// note keeps why the latest visit of a downsample failed, "" if it did not.
func (s *Service) note(id uint64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		delete(s.mu.failed, id)
		return
	}
	s.mu.failed[id] = text
}

// due returns the end of the windows of a downsample that are to be computed by now.
func (s *Service) due(d *meta.Downsample) int64 {
	return d.Start(s.opt.Now().Add(-settle(d.Every)).UnixNano())
}

// Progress returns how far each downsample is, by id.
func (s *Service) Progress() map[uint64]show.Progress {
	all := map[uint64]show.Progress{}
	for _, d := range s.opt.Catalog().Downsamples() {
		state := s.opt.Marks.State(d.ID, s.due(d))
		share := 1.0
		if d.Backfill > 0 {
			share = max(0, 1-float64(state.Whole)*float64(d.Every)/float64(d.Backfill))
		}
		list := s.failing.of(d.ID)
		p := show.Progress{CompleteUntil: state.Earliest, Waiting: state.Windows, Backfilled: share, Failing: failingWindows(d, list), Err: failureText(list)}
		s.mu.Lock()
		if why := s.mu.failed[d.ID]; why != "" {
			p.Err = strings.TrimSuffix(why+"; "+p.Err, "; ")
		}
		s.mu.Unlock()
		all[d.ID] = p
	}
	return all
}

// failingWindows returns how many windows failures are.
func failingWindows(d *meta.Downsample, list []failure) (n int64) {
	for _, x := range list {
		n += d.Windows(x.from, x.to)
	}
	return n
}

var (
	waitingDesc  = prometheus.NewDesc("tsdbd_downsample_waiting_windows", "Windows of downsamples that have ended and are to be computed.", nil, nil)
	behindDesc   = prometheus.NewDesc("tsdbd_downsample_behind_seconds", "Age of the earliest window of a downsample that has ended and is to be computed.", nil, nil)
	computedDesc = prometheus.NewDesc("tsdbd_downsample_computed_windows_total", "Windows of measurements that were computed.", nil, nil)
	rowsDesc     = prometheus.NewDesc("tsdbd_downsample_rows_total", "Rows of downsamples that were written and deleted.", []string{"change"}, nil)
	failingDesc  = prometheus.NewDesc("tsdbd_downsample_failing_windows", "Windows that could not be computed when it was tried last, of those that wait.", nil, nil)
	failuresDesc = prometheus.NewDesc("tsdbd_downsample_failures_total", "Windows and visits of downsamples that failed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, behindDesc, computedDesc, rowsDesc, failingDesc, failuresDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	var waiting, behind, failing int64
	for _, d := range s.opt.Catalog().Downsamples() {
		due := s.due(d)
		state := s.opt.Marks.State(d.ID, due)
		waiting += state.Windows
		behind = max(behind, due-state.Earliest)
		failing += failingWindows(d, s.failing.of(d.ID))
	}
	ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, float64(failing))
	ch <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
	ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, time.Duration(behind).Seconds())
	ch <- prometheus.MustNewConstMetric(computedDesc, prometheus.CounterValue, float64(s.computed.Load()))
	ch <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(s.written.Load()), "written")
	ch <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(s.deleted.Load()), "deleted")
	ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(s.failures.Load()))
}
