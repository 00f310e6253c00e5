package downsample

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/pulse"
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
	// Sizes returns what the policies have, by database and name; nil: nobody knows.
	Sizes  func() map[[2]string]Size
	Memory *admission.Memory // of all queries, for rows that are compared; nil: no bound
	Logger *slog.Logger      // nil discards
	Now    func() time.Time  // nil is time.Now

	Interval time.Duration // between looks at the catalog; 0: a second
	Rows     int           // that are computed at once, about; 0: the default
}

// Size is what a policy has.
type Size struct {
	Rows  int64 // about
	Bytes int64 // on disk
}

// defaultRows bounds the rows that are computed at once: some 20 MB in the query.
const defaultRows = 200_000

// Service keeps the downsamples of a catalog true. It is a prometheus.Collector.
type Service struct {
	opt Options

	mu    sync.Mutex
	tasks map[uint64]*task // by downsample; only the loop changes the map

	computed, written, deleted, failures atomic.Uint64
}

// task is what is known of a downsample as long as this node computes it.
type task struct {
	definitions []meta.Definition // of the loop: with which the rest holds
	next        time.Time         // of the loop: the next visit
	stopped     touched.Span      // of the loop: what the latest visit did not come to, or nothing

	// Guarded by Service.mu:
	err       string // why the latest visit failed
	failing   failures
	heldSince time.Time // since then it holds expired shard groups of its source
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
	return &Service{opt: opt, tasks: map[uint64]*task{}}
}

// Run computes windows until ctx ends. Calls must not overlap.
func (s *Service) Run(ctx context.Context) {
	ticker := pulse.NewTicker(s.opt.Interval)
	defer ticker.Stop()
	defer func() { // another node computes
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.tasks)
	}()
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

// retryAfter is at least between a visit that failed and the next one.
const retryAfter = 10 * time.Second

// round visits the downsamples whose time has come.
func (s *Service) round(ctx context.Context) {
	present := map[uint64]bool{}
	for _, was := range s.opt.Catalog().Downsamples() {
		// Others were visited meanwhile. The definitions are at least those of the sequence:
		// a visit completes no mark of a change that it does not know.
		sequence := s.opt.Applied()
		db, d := s.opt.Catalog().Downsample(was.ID)
		if d == nil {
			continue
		}
		present[d.ID] = true
		s.mu.Lock()
		t := s.tasks[d.ID]
		if t == nil {
			t = &task{}
			s.tasks[d.ID] = t
		}
		s.mu.Unlock()
		if !reflect.DeepEqual(t.definitions, d.Definitions) { // windows of others say nothing of these
			s.mu.Lock()
			t.definitions, t.next, t.stopped, t.failing = d.Definitions, time.Time{}, touched.Span{}, nil
			s.mu.Unlock()
		}
		s.noteHeld(t, s.held(db, d) > 0)
		now := s.opt.Now()
		if now.Before(t.next) && t.next.Sub(now) <= time.Minute { // else the clock was ahead
			continue
		}
		err := s.visit(ctx, db, d, t, sequence)
		if ctx.Err() != nil {
			return
		}
		wait, text := settle(d.Current().Every), ""
		switch {
		case err == nil:
		case errors.Is(err, errMore):
			wait = 0
		default:
			wait, text = max(wait, retryAfter), err.Error()
			s.failures.Add(1)
			s.opt.Logger.Error("downsample failed, it will be tried again", "db", db.Name, "from", d.From, "into", d.Into, "in", wait, "err", err)
		}
		t.next = s.opt.Now().Add(wait)
		s.mu.Lock()
		t.err = text
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tasks, func(id uint64, _ *task) bool { return !present[id] })
}

// troubles returns why the latest visit of a downsample failed, and its windows that fail.
func (s *Service) troubles(id uint64) (err string, failing failures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[id]; t != nil {
		return t.err, slices.Clone(t.failing)
	}
	return "", nil
}

// due returns the end of the windows of a downsample that are to be computed by now.
func (s *Service) due(d *meta.Downsample) int64 {
	return d.Start(s.opt.Now().Add(-settle(d.Current().Every)).UnixNano())
}

// Progress returns how far each downsample is, by id.
func (s *Service) Progress() map[uint64]show.Progress {
	all := map[uint64]show.Progress{}
	var sizes map[[2]string]Size
	if s.opt.Sizes != nil {
		sizes = s.opt.Sizes()
	}
	for db, d := range s.opt.Catalog().Downsamples() {
		due := s.due(d)
		state := s.opt.Marks.State(d.ID, due)
		share := 1.0
		if d.Backfill > 0 {
			share = max(0, 1-float64(state.Whole)*float64(d.Current().Every)/float64(d.Backfill))
		}
		err, failing := s.troubles(d.ID)
		if text := failing.String(); err != "" && text != "" {
			err += "; " + text
		} else {
			err += text
		}
		size := sizes[[2]string{db.Name, d.Into}]
		all[d.ID] = show.Progress{
			CompleteUntil: state.Earliest, Behind: behind(due, state.Earliest), Waiting: state.Windows,
			Backfilled: share, Failing: failing.windows(d), Held: s.held(db, d), Err: err,
			Rows: size.Rows, Bytes: size.Bytes,
		}
	}
	return all
}

// behind returns how long a time is before due: 0 if it is not.
func behind(due, at int64) time.Duration {
	if at >= due {
		return 0
	}
	return time.Duration(min(uint64(due-at), math.MaxInt64)) // it may be more than an int64
}

var (
	waitingDesc  = prometheus.NewDesc("tsdbd_downsample_waiting_windows", "Windows of downsamples that have ended and are to be computed.", nil, nil)
	behindDesc   = prometheus.NewDesc("tsdbd_downsample_behind_seconds", "Age of the earliest window of a downsample that has ended and is to be computed.", nil, nil)
	computedDesc = prometheus.NewDesc("tsdbd_downsample_computed_windows_total", "Windows of measurements that were computed.", nil, nil)
	rowsDesc     = prometheus.NewDesc("tsdbd_downsample_rows_total", "Rows of downsamples that were written and deleted.", []string{"change"}, nil)
	failingDesc  = prometheus.NewDesc("tsdbd_downsample_failing_windows", "Windows that could not be computed when it was tried last, of those that wait.", nil, nil)
	heldDesc     = prometheus.NewDesc("tsdbd_downsample_held_shard_groups", "Shard groups of the policy that has most of them, which have expired and are kept until a downsample has their windows.", nil, nil)
	heldAgeDesc  = prometheus.NewDesc("tsdbd_downsample_held_seconds", "For how long this node has computed a downsample that holds expired shard groups.", nil, nil)
	failuresDesc = prometheus.NewDesc("tsdbd_downsample_failures_total", "Windows and visits of downsamples that failed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, behindDesc, computedDesc, rowsDesc, failingDesc, heldDesc, heldAgeDesc, failuresDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	var waiting, failing int64
	var longest time.Duration
	var held int64 // two downsamples of one source hold the same groups
	var heldFor time.Duration
	for db, d := range s.opt.Catalog().Downsamples() {
		held, heldFor = max(held, s.held(db, d)), max(heldFor, s.heldFor(d.ID))
		due := s.due(d)
		state := s.opt.Marks.State(d.ID, due)
		waiting += state.Windows
		longest = max(longest, behind(due, state.Earliest))
		_, list := s.troubles(d.ID)
		failing += list.windows(d)
	}
	ch <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(held))
	ch <- prometheus.MustNewConstMetric(heldAgeDesc, prometheus.GaugeValue, heldFor.Seconds())
	ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, float64(failing))
	ch <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
	ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, longest.Seconds())
	ch <- prometheus.MustNewConstMetric(computedDesc, prometheus.CounterValue, float64(s.computed.Load()))
	ch <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(s.written.Load()), "written")
	ch <- prometheus.MustNewConstMetric(rowsDesc, prometheus.CounterValue, float64(s.deleted.Load()), "deleted")
	ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(s.failures.Load()))
}
