package continuous

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model/point"
)

// The defaults of Options.
const (
	DefaultInterval = time.Second
	DefaultCatchUp  = 24 * time.Hour
)

const stateName = "continuous.json"

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
	// Dir holds the state file; "" keeps no state, and nothing is caught up.
	Dir string
	FS  vfs.FS           // default vfs.OS
	Now func() time.Time // nil is time.Now
}

// Service runs the continuous queries of a catalog. It is a
// prometheus.Collector of their counts.
type Service struct {
	opt    Options
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once

	// Of the loop.
	plans  map[string]*plan   // by key; nil: cannot run
	last   map[string]lastRun // by key
	failed map[string]retry
	dirty  bool

	ok, bad atomic.Uint64
}

// lastRun is the end of what a query has covered, by the wall clock, in ns.
type lastRun struct {
	at int64
	// The latest run that came more than a step after the one before it was at
	// leapTo, the one before at leapFrom; 0: there was none. If leapTo turns out
	// to be in the future, the clock had jumped ahead, and leapFrom is how far the
	// query really was.
	leapFrom, leapTo int64
}

// ran returns the lastRun after a run at a time, if runs are a step apart.
func (l lastRun) ran(at int64, step time.Duration) lastRun {
	if l.at != 0 && at-l.at > int64(step) {
		l.leapFrom, l.leapTo = l.at, at
	}
	l.at = at
	return l
}

// believed returns the last run if now is correct. A run in the future happened while
// the clock was ahead.
func (l lastRun) believed(now int64) lastRun {
	switch {
	case l.at <= now:
		return l
	case l.leapTo > now && l.leapFrom < now:
		return lastRun{at: l.leapFrom}
	}
	return lastRun{at: now}
}

// retry says when a query that failed runs again.
type retry struct {
	at    time.Time
	delay time.Duration
}

// New returns a service that Start sets going.
func New(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Interval = cmp.Or(max(0, opt.Interval), DefaultInterval)
	opt.CatchUp = cmp.Or(opt.CatchUp, DefaultCatchUp)
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Service{opt: opt, done: make(chan struct{}), plans: map[string]*plan{}, last: map[string]lastRun{}, failed: map[string]retry{}}
}

// Start reads the state and begins to run queries. A state file that cannot be
// read is set aside: then nothing is caught up.
func (s *Service) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if err := s.load(); err != nil {
		s.opt.Logger.Error("continuous queries begin anew, nothing is caught up", "err", err)
		s.last = map[string]lastRun{}
	}
	go func() {
		defer close(s.done)
		ticker := time.NewTicker(s.opt.Interval)
		defer ticker.Stop()
		for {
			s.pass(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
}

// Close cancels the current run and waits for it.
func (s *Service) Close() {
	s.once.Do(func() {
		if s.cancel != nil {
			s.cancel()
			<-s.done
		}
	})
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
			s.dirty = true
		}
	}
	if s.dirty {
		if err := s.save(); err != nil {
			s.opt.Logger.Error("state of continuous queries not kept", "err", err)
			return // the next pass tries again
		}
		s.dirty = false
	}
}

func (s *Service) run(ctx context.Context, k, database, name string, p *plan) {
	now := s.opt.Now()
	var last time.Time
	if l, ok := s.last[k]; ok {
		if b := l.believed(now.UnixNano()); b != l {
			s.opt.Logger.Warn("the wall clock was ahead, a continuous query runs again over what it covered then",
				"database", database, "name", name, "ran", time.Unix(0, l.at).UTC(), "from", time.Unix(0, b.at).UTC(), "now", now.UTC())
			l = b
			s.last[k], s.dirty = l, true
		}
		last = time.Unix(0, l.at)
		if limit := now.Add(-max(s.opt.CatchUp, 0)); last.Before(limit) {
			last = limit
		}
		if s.opt.CatchUp < 0 && l.at < p.Window(now).UnixNano()-int64(max(p.Interval, p.every)) {
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
			s.last[k], s.dirty = lastRun{at: start.UnixNano()}, true
		}
		log.Error("continuous query failed, it will be tried again", "in", r.delay, "err", err)
		return
	}
	delete(s.failed, k)
	s.last[k], s.dirty = s.last[k].ran(run.UnixNano(), p.step()), true
}

// load reads the state file, if there is one.
func (s *Service) load() error {
	if s.opt.Dir == "" {
		return nil
	}
	name := path.Join(s.opt.Dir, stateName)
	b, err := vfs.ReadFile(s.opt.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list []stateEntry
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	for _, e := range list {
		s.last[key(e.Database, e.Name, e.Query)] = lastRun{e.Last, e.LeapFrom, e.LeapTo}
	}
	return nil
}

// stateEntry is the entry of a query in the state file.
type stateEntry struct {
	Database, Name, Query string
	Last                  int64 // time of the last run that succeeded, ns
	LeapFrom, LeapTo      int64 `json:",omitempty"` // see lastRun
}

func (s *Service) save() error {
	if s.opt.Dir == "" {
		return nil
	}
	list := []stateEntry{}
	for _, db := range s.opt.Catalog().Databases {
		for _, q := range db.ContinuousQueries {
			if last, ok := s.last[key(db.Name, q.Name, q.Query)]; ok {
				list = append(list, stateEntry{db.Name, q.Name, q.Query, last.at, last.leapFrom, last.leapTo})
			}
		}
	}
	b, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(s.opt.FS, s.opt.Dir, path.Join(s.opt.Dir, stateName), append(b, '\n'))
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
