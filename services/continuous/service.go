package continuous

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/pulse"
	"tsdbd/meta"
	"tsdbd/model/point"
)

// The defaults of Options.
const (
	DefaultInterval = time.Second
	DefaultCatchUp  = 24 * time.Hour
)

// Options adjusts a Service. Catalog and Execute are required.
type Options struct {
	Catalog func() *meta.Data
	// Execute runs a statement against a database and returns its error; one
	// that is a point.PartialWrite counts as done.
	Execute  func(ctx context.Context, database string, q *influxql.Query) error
	Logger   *slog.Logger  // nil discards
	Interval time.Duration // between looks at the catalog
	// LogRuns logs every run at Info instead of Debug.
	LogRuns bool
	// CatchUp bounds how far back the first run after a start reaches for windows
	// that ended while the server was down. Negative: it does not.
	CatchUp time.Duration
	// Save keeps in the catalog how far queries have come. nil: nothing is kept.
	Save func(ctx context.Context, runs []meta.QueryRun) error
	Now  func() time.Time // nil is time.Now
}

// Service runs the continuous queries of a catalog. It is a
// prometheus.Collector of their counts.
type Service struct {
	opt Options

	// Of the loop.
	plans  map[string]*plan              // by key; nil: cannot run
	last   map[string]meta.ContinuousRun // by key
	failed map[string]retry
	unkept map[string]bool // keys of last that the catalog does not have

	ok, bad atomic.Uint64
}

// ran returns what follows l after a run at a time, if runs are a step apart.
func ran(l meta.ContinuousRun, at int64, step time.Duration) meta.ContinuousRun {
	if l.At != 0 && at-l.At > int64(step) {
		l.LeapFrom, l.LeapTo = l.At, at
	}
	l.At = at
	return l
}

// believed returns the last run if now is correct. A run in the future happened while
// the clock was ahead.
func believed(l meta.ContinuousRun, now int64) meta.ContinuousRun {
	switch {
	case l.At <= now:
		return l
	case l.LeapTo > now && l.LeapFrom < now:
		return meta.ContinuousRun{At: l.LeapFrom}
	}
	return meta.ContinuousRun{At: now}
}

// retry says when a query that failed runs again.
type retry struct {
	at    time.Time
	delay time.Duration
}

// New returns a service.
func New(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Interval = cmp.Or(max(0, opt.Interval), DefaultInterval)
	opt.CatchUp = cmp.Or(opt.CatchUp, DefaultCatchUp)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Service{opt: opt, plans: map[string]*plan{}}
}

// Run runs queries until ctx ends. It begins with what the catalog says of them, so
// that one service resumes where another has stopped. Calls must not overlap.
func (s *Service) Run(ctx context.Context) {
	s.last, s.failed, s.unkept = map[string]meta.ContinuousRun{}, map[string]retry{}, map[string]bool{}
	for _, db := range s.opt.Catalog().Databases {
		for _, q := range db.ContinuousQueries {
			if q.Run != (meta.ContinuousRun{}) {
				s.last[key(db.Name, q.Name, q.Query)] = q.Run
			}
		}
	}
	ticker := pulse.NewTicker(s.opt.Interval)
	defer ticker.Stop()
	for {
		s.pass(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pass runs the queries that are due.
func (s *Service) pass(ctx context.Context) {
	present := map[string]bool{}
	for _, db := range s.opt.Catalog().Databases {
		for _, q := range db.ContinuousQueries {
			if ctx.Err() != nil {
				return
			}
			k := key(db.Name, q.Name, q.Query)
			present[k] = true
			p, known := s.plans[k]
			if !known {
				var err error
				if p, err = parse(q.Query); err != nil {
					s.opt.Logger.Error("continuous query cannot run", "database", db.Name, "name", q.Name, "err", err)
					s.bad.Add(1)
					p = nil
				}
				s.plans[k] = p
			}
			if p != nil {
				s.run(ctx, k, db.Name, q.Name, p)
			}
		}
	}
	for k := range s.plans {
		if !present[k] {
			delete(s.plans, k)
			delete(s.failed, k)
		}
	}
	for k := range s.last {
		if !present[k] {
			delete(s.last, k)
			delete(s.unkept, k)
		}
	}
	if err := s.save(ctx); err != nil && ctx.Err() == nil {
		s.opt.Logger.Error("state of continuous queries not kept", "err", err) // the next pass tries again
	}
}

// note notes how far a query has come.
func (s *Service) note(k string, run meta.ContinuousRun) {
	s.last[k] = run
	s.unkept[k] = true
}

// save keeps what the catalog does not have.
func (s *Service) save(ctx context.Context) error {
	if len(s.unkept) == 0 || s.opt.Save == nil {
		return nil
	}
	var runs []meta.QueryRun
	for _, db := range s.opt.Catalog().Databases {
		for _, q := range db.ContinuousQueries {
			if k := key(db.Name, q.Name, q.Query); s.unkept[k] {
				runs = append(runs, meta.QueryRun{Database: db.Name, Name: q.Name, Query: q.Query, Run: s.last[k]})
			}
		}
	}
	err := s.opt.Save(ctx, runs)
	if err == nil {
		clear(s.unkept)
	}
	return err
}

func (s *Service) run(ctx context.Context, k, database, name string, p *plan) {
	now := s.opt.Now()
	var last time.Time
	if l, ok := s.last[k]; ok {
		if b := believed(l, now.UnixNano()); b != l {
			s.opt.Logger.Warn("the wall clock was ahead, a continuous query runs again over what it covered then",
				"database", database, "name", name, "ran", time.Unix(0, l.At).UTC(), "from", time.Unix(0, b.At).UTC(), "now", now.UTC())
			l = b
			s.note(k, l)
		}
		last = time.Unix(0, l.At)
		if limit := now.Add(-max(s.opt.CatchUp, 0)); last.Before(limit) {
			last = limit
		}
		if s.opt.CatchUp < 0 && l.At < p.Window(now).UnixNano()-int64(max(p.Interval, p.every)) {
			last = time.Time{}
		}
	}
	if r, ok := s.failed[k]; ok && now.Before(r.at) && r.at.Sub(now) <= r.delay { // else the clock was ahead
		return
	}
	start, end, run, due := p.due(now, last)
	if !due {
		return
	}
	stmt, err := p.Over(start, end)
	if err == nil {
		err = s.opt.Execute(ctx, database, &influxql.Query{Statements: influxql.Statements{stmt}})
	}
	if ctx.Err() != nil {
		return // it runs again after the next start
	}
	log := s.opt.Logger.With("database", database, "name", name, "start", start.UTC(), "end", end.UTC())
	_, _, partial := point.Partial(err)
	switch {
	case err == nil:
		s.ok.Add(1)
		level := slog.LevelDebug
		if s.opt.LogRuns {
			level = slog.LevelInfo
		}
		log.Log(ctx, level, "continuous query ran", "took", s.opt.Now().Sub(now))
	case partial:
		s.ok.Add(1)
		log.Warn("continuous query: not all points were stored", "err", err)
	default:
		s.bad.Add(1)
		r := s.failed[k]
		r.delay = min(max(2*r.delay, s.opt.Interval), max(p.every, s.opt.Interval), time.Minute)
		r.at = s.opt.Now().Add(r.delay)
		s.failed[k] = r
		if _, known := s.last[k]; !known {
			// A query that has never succeeded keeps its first window.
			s.note(k, meta.ContinuousRun{At: start.UnixNano()})
		}
		log.Error("continuous query failed, it will be tried again", "in", r.delay, "err", err)
		return
	}
	delete(s.failed, k)
	s.note(k, ran(s.last[k], run.UnixNano(), p.step()))
}

// Counts returns how many runs succeeded and failed.
func (s *Service) Counts() (ok, failed uint64) { return s.ok.Load(), s.bad.Load() }

var runsDesc = prometheus.NewDesc("tsdbd_continuous_query_runs_total", "Runs of continuous queries.", []string{"result"}, nil)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { ch <- runsDesc }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(runsDesc, prometheus.CounterValue, float64(s.ok.Load()), "ok")
	ch <- prometheus.MustNewConstMetric(runsDesc, prometheus.CounterValue, float64(s.bad.Load()), "failed")
}
