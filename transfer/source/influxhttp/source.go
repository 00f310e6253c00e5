package influxhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/mover"
)

// Options say what is taken and how. The zero value takes everything.
type Options struct {
	Filter exchange.Filter
	Slice  time.Duration // longest slice of time that is asked for at once; 0: by what the server can
	// Patience is how long a server that fails is tried; default 5 minutes.
	Patience time.Duration
	// Journal says that parts are noted. Then the slice of the present is halved until little of
	// it, whose rows still come, is not noted.
	Journal bool
	Note    func(text string) // what a user should know, by one goroutine at a time
}

// Source is a mover.Source of what a Server has. It asks the target what its policies keep.
type Source struct {
	server  *Server
	target  *Server
	catalog *Catalog
	opt     Options
	began   time.Time    // by the clock of the server
	newest  atomic.Int64 // of the times of all rows
	noting  sync.Mutex
}

// New returns the source of what the catalog c of a server names, for a target.
func New(server *Server, target *exchange.Client, c *Catalog, opt Options) *Source {
	if opt.Patience <= 0 {
		opt.Patience = 5 * time.Minute
	}
	s := &Source{server: server, target: &Server{client: target, kind: tsdbd}, catalog: c, opt: opt, began: server.Now()}
	s.newest.Store(model.AllTime.Min)
	return s
}

func (s *Source) note(format string, args ...any) {
	s.noting.Lock()
	defer s.noting.Unlock()
	if s.opt.Note != nil {
		s.opt.Note(fmt.Sprintf(format, args...))
	}
}

// Catalog implements mover.Source. It returns databases and policies alone: Definitions come
// behind the rows.
func (s *Source) Catalog(context.Context, *exchange.Filter) (*mover.Catalog, error) {
	out := &mover.Catalog{}
	for _, d := range s.catalog.Data.Databases {
		c := &meta.Database{Name: d.Name, DefaultRetentionPolicy: d.DefaultRetentionPolicy}
		for _, rp := range d.RetentionPolicies {
			if s.opt.Filter.WantsPolicy(d, rp) {
				of := *rp
				of.FutureWriteLimit, of.PastWriteLimit = 0, 0
				c.RetentionPolicies = append(c.RetentionPolicies, &of)
			}
		}
		out.Databases = append(out.Databases, c)
	}
	return out, nil
}

// Definitions returns the continuous queries, downsamples and write limits of the catalog, which
// the target gets after the rows are there. A downsample comes if both of its policies are
// chosen.
func (s *Source) Definitions() *exchange.Definitions {
	c := s.catalog
	d := &exchange.Definitions{Queries: c.Queries}
	for _, t := range c.Downsamples {
		db := c.database(t.Database)
		wanted := func(policy string) bool {
			rp := db.RetentionPolicy(policy)
			return rp != nil && s.opt.Filter.WantsPolicy(db, rp)
		}
		if wanted(t.Definition.From) && wanted(t.Definition.Into) {
			d.Downsamples = append(d.Downsamples, t)
		}
	}
	for _, db := range c.Data.Databases {
		for _, l := range exchange.Limits(db, db.Name) {
			if s.opt.Filter.WantsPolicy(db, db.RetentionPolicy(l.RetentionPolicy)) {
				d.Limits = append(d.Limits, l)
			}
		}
	}
	return d
}

// measurements returns the measurements of a catalog that the filter chooses.
func (s *Source) measurements(ctx context.Context, c *Catalog) (all []*measurement, err error) {
	wanted := s.opt.Filter.Wanted()
	for _, d := range c.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			if !s.opt.Filter.WantsPolicy(d, rp) {
				continue
			}
			at := place{d.Name, rp.Name}
			of, err := retry(ctx, s, func() ([]*measurement, error) { return s.server.measurements(ctx, at) })
			if err != nil {
				return nil, explain(err)
			}
			for _, m := range of {
				if wanted(m.name) {
					m.groups, m.hidden = rp.ShardGroupDuration, c.hidden[at]
					all = append(all, m)
				}
			}
		}
	}
	return all, nil
}

// Parts implements mover.Source. The slices of one time come one after the other, so that the
// target fills one shard after the other.
func (s *Source) Parts(ctx context.Context, _ *exchange.Filter) iter.Seq2[*mover.Part, error] {
	return func(yield func(*mover.Part, error) bool) {
		all, err := s.measurements(ctx, s.catalog)
		share := 1.0 // of these measurements
		for len(all) > 0 && err == nil {
			n := 1
			for n < len(all) && all[n].place == all[0].place {
				n++
			}
			var work []slice
			if work, err = s.slices(ctx, all[:n]); len(work) > 0 && err == nil {
				of := share * float64(n) / float64(len(all))
				share -= of
				for _, w := range work {
					if !yield(s.part(w.stretch, w.times, 0, of*w.share), nil) {
						return
					}
				}
			}
			all = all[n:]
		}
		if err != nil {
			yield(nil, explain(err))
		}
	}
}

// stretch is a measurement whose slices are taken.
type stretch struct {
	*measurement
	depth  atomic.Int32 // how often slices are halved before they are asked for
	newest atomic.Int64 // of the times of its rows
}

func newStretch(m *measurement) *stretch {
	st := &stretch{measurement: m}
	st.newest.Store(model.AllTime.Min)
	return st
}

// slice is a slice of time of a measurement, and its share of the policy.
type slice struct {
	*stretch
	times model.TimeRange
	share float64
}

// slices returns the slices of the measurements of a policy, in order of time.
func (s *Source) slices(ctx context.Context, of []*measurement) (all []slice, err error) {
	times, err := s.kept(ctx, of[0].place)
	if err != nil {
		return nil, err
	}
	stretches := 0
	for _, m := range of {
		cuts, err := s.cut(ctx, m, times)
		if err != nil {
			return nil, fmt.Errorf("find the times of %s: %w", m, err)
		}
		if len(cuts) == 0 {
			continue
		}
		if m.mixed && s.catalog.groups == nil {
			s.note("%s has fields of several types, and the server does not tell its shards: values may have become floats", m)
		}
		stretches++
		st := newStretch(m)
		for _, r := range cuts {
			all = append(all, slice{st, r, 1 / float64(len(cuts))})
		}
	}
	for i := range all {
		all[i].share /= float64(stretches)
	}
	slices.SortStableFunc(all, func(a, b slice) int { return cmp.Compare(a.times.Min, b.times.Min) })
	return all, nil
}

// kept returns the times that the target keeps of a policy, within the filter.
func (s *Source) kept(ctx context.Context, at place) (model.TimeRange, error) {
	r := s.opt.Filter.Times()
	d, err := retry(ctx, s, func() (*meta.Database, error) {
		d := &meta.Database{Name: at.database}
		return d, s.target.policies(ctx, d, "")
	})
	if err != nil {
		return r, &mover.TargetError{Err: err}
	}
	rp := d.RetentionPolicy(at.policy)
	if rp == nil || rp.Duration <= 0 {
		return r, nil
	}
	// Rows expire while they are under way.
	margin := min(rp.Duration/20, time.Hour)
	r.Min = max(r.Min, s.server.Now().Add(margin-rp.Duration).UnixNano())
	return r, nil
}

// cut cuts the time of a measurement. The cuts are those of the shard groups of the server: in
// a group, a field has one type.
func (s *Source) cut(ctx context.Context, m *measurement, times model.TimeRange) ([]model.TimeRange, error) {
	var out []model.TimeRange
	if s.catalog.groups != nil {
		for _, g := range s.catalog.groups[m.place] {
			if g = g.Intersect(times); !g.Empty() {
				out = append(out, g)
			}
		}
		return out, nil
	}
	ends := [2]int64{}
	for i, order := range []string{"ASC", "DESC"} {
		at, ok, err := s.first(ctx, m, times, order)
		if err != nil || !ok {
			return nil, err
		}
		ends[i] = at
	}
	length := int64(cmp.Or(m.groups, 7*24*time.Hour))
	if s.server.kind == influx3 {
		length = int64(24 * time.Hour) // Core refuses to read many files at once
	}
	few := ends[1]/length-ends[0]/length < 1000
	for at := ends[0]; ; {
		start, end := meta.GroupBounds(at, time.Duration(length))
		g := model.TimeRange{Min: start, Max: end - 1}.Intersect(times)
		out = append(out, g)
		if g.Max >= ends[1] {
			return out, nil
		}
		if at = g.Max + 1; few {
			continue
		}
		next, ok, err := s.first(ctx, m, model.TimeRange{Min: at, Max: times.Max}, "ASC")
		if err != nil || !ok {
			return out, err
		}
		at = next
	}
}

// first returns the time of the first row within times, in an order.
func (s *Source) first(ctx context.Context, m *measurement, times model.TimeRange, order string) (int64, bool, error) {
	tables, err := retry(ctx, s, func() ([]exchange.Table, error) {
		return s.server.ask(ctx, m.place, fmt.Sprintf("SELECT * FROM %s%s ORDER BY time %s LIMIT 1", s.server.source(m.place, m.name), where(times), order))
	})
	if err != nil {
		return 0, false, err
	}
	for _, t := range tables {
		for _, row := range t.Values {
			v := value{kind: number, text: fmt.Append(nil, t.At(row, "time"))}
			at, err := v.time()
			return at, err == nil, err
		}
	}
	return 0, false, nil
}

// Slices are halved where a server cannot answer them, and where they have many more
// rows than sliceRows: an import that was killed repeats what it had of a slice.
const (
	sliceRows = 4_000_000
	sliceTime = 2 * time.Minute
	// presentTime is how much time around the present is not noted in the journal,
	// because rows still come.
	presentTime = time.Minute
	// shortest is the shortest slice that is halved.
	shortest = int64(time.Millisecond)
)

// attempt is a part and how the attempts to move it went.
type attempt struct {
	source  *Source
	of      *stretch
	times   model.TimeRange
	level   int32 // how often it was halved
	length  int64 // of times; of all time it is negative
	wait    wait
	failed  int   // attempts
	rows    int64 // of the latest attempt
	settled bool
}

// part returns the rows of a stretch within times. Its name is the one in journals.
func (s *Source) part(of *stretch, times model.TimeRange, level int32, share float64) *mover.Part {
	a := &attempt{source: s, of: of, times: times, level: level, length: times.Max - times.Min, wait: s.newWait()}
	p := &mover.Part{
		Name:     fmt.Sprintf("%q %q %q %d %d", of.database, of.policy, of.name, times.Min, times.Max),
		Database: of.database, Policy: of.policy, Times: times, Share: share,
		Lines: a.lines, Recover: a.recover, Settled: func() bool { return a.settled },
	}
	if a.length < 0 || a.length >= 2*shortest {
		p.Halve = a.large
		p.Halves = func() [2]*mover.Part {
			middle := times.Min + int64(uint64(a.length)/2)
			return [2]*mover.Part{
				s.part(of, model.TimeRange{Min: times.Min, Max: middle}, level+1, share/2),
				s.part(of, model.TimeRange{Min: middle + 1, Max: times.Max}, level+1, share/2),
			}
		}
	}
	return p
}

// large reports whether a part is halved before it is asked for.
func (a *attempt) large() bool {
	longer := func(d time.Duration) bool { return a.length < 0 || a.length >= int64(d) }
	now := a.source.server.Now().UnixNano()
	present := a.source.opt.Journal && a.times.Max >= now && a.times.Min < now && longer(presentTime+1)
	return a.level < a.of.depth.Load() || a.source.opt.Slice > 0 && longer(a.source.opt.Slice) || present
}

// lines passes on the rows of the part.
func (a *attempt) lines(ctx context.Context, to mover.Lines) error {
	began, present := time.Now(), a.times.Max >= a.source.server.Now().UnixNano()
	c, err := a.source.server.copy(ctx, a.of.measurement, a.times, to)
	if a.rows = c.rows; err != nil {
		return err
	}
	a.of.learn(c.rows, time.Since(began), a.level)
	a.settled = !present && c.rows+c.refused > 0
	for _, newest := range []*atomic.Int64{&a.of.newest, &a.source.newest} {
		for was := newest.Load(); c.newest > was && !newest.CompareAndSwap(was, c.newest); was = newest.Load() {
		}
	}
	return nil
}

// recover chooses what becomes of the part after an error.
func (a *attempt) recover(ctx context.Context, err error) error {
	var target *mover.TargetError
	ofTarget := errors.As(err, &target)
	if ofTarget {
		err = fmt.Errorf("write %s: %w", a.of.measurement, err)
	} else {
		err = explain(fmt.Errorf("read %s from %s to %s: %w", a.of.measurement, stamp(a.times.Min), stamp(a.times.Max), err))
		a.failed++
	}
	what := judge(err)
	switch {
	case ctx.Err() != nil, ofTarget && !away(err), !ofTarget && what == give:
		return err
	case ofTarget:
	case what == split, a.failed > 2 && a.rows > 0:
		if a.length >= 0 && a.length < 2*shortest {
			return err
		}
		if errors.Is(err, errStalled) {
			a.source.note("%v; asking for half of it", err)
		}
		return mover.ErrHalve
	}
	return a.wait.pause(ctx, err)
}

func stamp(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }

// learn chooses how small the next slices of the measurement are.
func (s *stretch) learn(rows int64, took time.Duration, level int32) {
	switch {
	case rows > sliceRows || took > sliceTime:
		s.depth.Store(min(level+1, 20))
	case rows < sliceRows/8 && took < sliceTime/8 && level > 0 && level == s.depth.Load():
		s.depth.Store(level - 1)
	}
}
