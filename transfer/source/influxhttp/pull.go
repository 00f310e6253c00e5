package influxhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
)

// Options say what is taken and how. The zero value takes everything.
type Options struct {
	Filter     exchange.Filter
	Slice      time.Duration // longest slice of time that is asked for at once; 0: by what the server can
	Workers    int           // slices at a time; default 2
	BatchBytes int           // of a write; default 1 MiB
	Journal    *journal.Journal
	Refused    *mover.Refused // takes the lines that the target refused; nil: they are only counted
	// Patience is how long a source that fails is tried; default 5 minutes.
	Patience time.Duration
	Progress func(Stats)       // often, by one goroutine at a time
	Report   func(text string) // what a user should know, by one goroutine at a time
}

// Stats count what was done.
type Stats struct {
	transfer.ImportStats
	// Done and Total measure the way: measurements of policies, in millionths.
	Done, Total int64
	Skipped     int   // slices that the journal has
	Underway    int64 // points written of slices that are not done
	// UpTo is set by Follow: what the source had then is here.
	UpTo    time.Time
	newest  int64
	earlier int64 // refused of slices that the journal has
}

// maxErrors bounds Stats.Errors.
const maxErrors = 20

// Pull copies what a Server has to a target.
type Pull struct {
	source *Server
	target *Server
	client *exchange.Client // of the target
	opt    Options
	began  time.Time // by the clock of the source

	mu struct {
		sync.Mutex
		Stats
	}
}

// New returns a Pull from source to the server of target.
func New(source *Server, target *exchange.Client, opt Options) *Pull {
	if opt.Workers <= 0 {
		opt.Workers = 2
	}
	if opt.Patience <= 0 {
		opt.Patience = 5 * time.Minute
	}
	if opt.Refused == nil {
		opt.Refused, _ = mover.OpenRefused("", false) // opens nothing
	}
	p := &Pull{source: source, target: &Server{client: target, kind: tsdbd}, client: target, opt: opt, began: source.now()}
	p.mu.newest = model.AllTime.Min
	return p
}

// report calls Options.Report.
func (p *Pull) report(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opt.Report != nil {
		p.opt.Report(fmt.Sprintf(format, args...))
	}
}

// Stats returns what was done so far.
func (p *Pull) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countLocked()
	return p.mu.Stats
}

// countLocked counts what was refused, also by the import that this one continues. Rows that
// are read again are not counted twice.
func (p *Pull) countLocked() {
	p.mu.Failed = p.opt.Refused.Lines(p.mu.earlier)
	p.mu.Lines = p.mu.Written + p.mu.Failed
}

// Create makes the databases and policies of c at the target. What exists stays.
func (p *Pull) Create(ctx context.Context, c *Catalog) error {
	_, err := p.client.Create(ctx, c.Data, &p.opt.Filter, "", "")
	return err
}

// Define makes the continuous queries, downsamples and write limits of c at the target, after
// the rows are there. A downsample comes if both of its policies are chosen.
func (p *Pull) Define(ctx context.Context, c *Catalog) (exchange.Defined, error) {
	d := &exchange.Definitions{Queries: c.Queries}
	for _, t := range c.Downsamples {
		db := c.database(t.Database)
		wanted := func(policy string) bool {
			rp := db.RetentionPolicy(policy)
			return rp != nil && p.opt.Filter.WantsPolicy(db, rp)
		}
		if wanted(t.Definition.From) && wanted(t.Definition.Into) {
			d.Downsamples = append(d.Downsamples, t)
		}
	}
	for _, db := range c.Data.Databases {
		for _, l := range exchange.Limits(db, db.Name) {
			if p.opt.Filter.WantsPolicy(db, db.RetentionPolicy(l.RetentionPolicy)) {
				d.Limits = append(d.Limits, l)
				p.report("%s.%s refuses writes beyond its limits from now on, as at the old server, unless it had other limits: %s", l.Database, l.RetentionPolicy, l.Statement())
			}
		}
	}
	if len(d.Queries)+len(d.Downsamples)+len(d.Limits) == 0 {
		return exchange.Defined{}, nil
	}
	return p.client.Define(ctx, d)
}

// stretch is a measurement with the slices to take.
type stretch struct {
	*measurement
	slices []model.TimeRange
	depth  depth
}

// Rows takes the rows of all measurements that the filter chooses.
func (p *Pull) Rows(ctx context.Context, c *Catalog) error {
	return p.places(ctx, c, func(d *meta.Database, rp *meta.RetentionPolicy, names []string) error {
		return p.policy(ctx, c, d, rp, names)
	})
}

// places calls f for each chosen policy with the chosen measurements of its database.
func (p *Pull) places(ctx context.Context, c *Catalog, f func(d *meta.Database, rp *meta.RetentionPolicy, names []string) error) error {
	type work struct {
		d     *meta.Database
		rp    *meta.RetentionPolicy
		names []string
	}
	var all []work
	wanted := p.opt.Filter.Wanted()
	for _, d := range c.Data.Databases {
		var names []string
		asked := false
		for _, rp := range d.RetentionPolicies {
			if !p.opt.Filter.WantsPolicy(d, rp) {
				continue
			}
			// In 2.x and 3.x each policy has measurements of its own.
			if !asked || p.source.kind == influx2 || p.source.kind == influx3 {
				var err error
				if names, err = retry(ctx, p, func() ([]string, error) { return p.source.measurements(ctx, place{d.Name, rp.Name}) }); err != nil {
					return explain(err)
				}
				names = slices.DeleteFunc(names, func(m string) bool { return !wanted(m) })
				asked = true
			}
			all = append(all, work{d, rp, names})
		}
	}
	p.add(func(s *Stats) {
		for _, w := range all {
			s.Total += int64(len(w.names)) * whole
		}
	})
	for _, w := range all {
		if err := f(w.d, w.rp, w.names); err != nil {
			return explain(err)
		}
	}
	return nil
}

// whole is the Total of one measurement.
const whole = 1_000_000

func (p *Pull) add(f func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.mu.Stats)
	p.countLocked()
	if p.opt.Progress != nil {
		p.opt.Progress(p.mu.Stats)
	}
}

// policy takes the rows of a retention policy. The slices of one time come one after
// the other, so that the target fills one shard after the other.
func (p *Pull) policy(ctx context.Context, c *Catalog, d *meta.Database, rp *meta.RetentionPolicy, names []string) error {
	at := place{d.Name, rp.Name}
	times, err := p.kept(ctx, at)
	if err != nil {
		return err
	}
	var all []*stretch
	for _, name := range names {
		m, err := retry(ctx, p, func() (*measurement, error) { return p.source.measurement(ctx, at, name) })
		if err != nil {
			return err
		}
		m.hidden = c.hidden[at]
		s := &stretch{measurement: m}
		if len(m.fields) > 0 {
			if s.slices, err = p.slices(ctx, c, m, rp, times); err != nil {
				return fmt.Errorf("find the times of %s: %w", m, err)
			}
		}
		if len(s.slices) == 0 {
			p.add(func(st *Stats) { st.Done += whole })
			continue
		}
		if m.mixed && c.groups == nil {
			p.report("%s has fields of several types, and the server does not tell its shards: values may have become floats", m)
		}
		all = append(all, s)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(p.opt.Workers)
	for begin := range inOrder(all) {
		work.Go(func() error {
			s := &slicer{Pull: p, stretch: begin.stretch, weight: whole / float64(len(begin.stretch.slices)), journal: p.opt.Journal}
			return s.take(ctx, begin.slice, 0)
		})
		if ctx.Err() != nil {
			break
		}
	}
	return work.Wait()
}

// begin is a slice of a measurement.
type begin struct {
	stretch *stretch
	slice   model.TimeRange
}

// inOrder yields the slices of all stretches in order of time.
func inOrder(all []*stretch) func(yield func(begin) bool) {
	return func(yield func(begin) bool) {
		at := make([]int, len(all))
		for {
			first := -1
			for i, s := range all {
				if at[i] < len(s.slices) && (first < 0 || s.slices[at[i]].Min < all[first].slices[at[first]].Min) {
					first = i
				}
			}
			if first < 0 || !yield(begin{all[first], all[first].slices[at[first]]}) {
				return
			}
			at[first]++
		}
	}
}

// kept returns the times that the target keeps of a policy, within the filter.
func (p *Pull) kept(ctx context.Context, at place) (model.TimeRange, error) {
	r := p.opt.Filter.Times()
	d, err := retry(ctx, p, func() (*meta.Database, error) {
		d := &meta.Database{Name: at.database}
		return d, p.target.policies(ctx, d, "")
	})
	if err != nil {
		return r, targetError{err}
	}
	rp := d.RetentionPolicy(at.policy)
	if rp == nil || rp.Duration <= 0 {
		return r, nil
	}
	// Rows expire while they are under way.
	margin := min(rp.Duration/20, time.Hour)
	oldest := p.source.now().Add(margin - rp.Duration).UnixNano()
	if r.Min < oldest {
		r.Min = oldest
	}
	return r, nil
}

// slices cuts the time of a measurement. The cuts are those of the shard groups of the
// server: in a group, a field has one type.
func (p *Pull) slices(ctx context.Context, c *Catalog, m *measurement, rp *meta.RetentionPolicy, times model.TimeRange) ([]model.TimeRange, error) {
	var out []model.TimeRange
	if c.groups != nil {
		for _, g := range c.groups[m.place] {
			if g = g.Intersect(times); !g.Empty() {
				out = append(out, g)
			}
		}
		return out, nil
	}
	ends := [2]int64{}
	for i, order := range []string{"ASC", "DESC"} {
		at, ok, err := first(ctx, p, m, times, order)
		if err != nil || !ok {
			return nil, err
		}
		ends[i] = at
	}
	length := int64(cmp.Or(rp.ShardGroupDuration, 7*24*time.Hour))
	if p.source.kind == influx3 {
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
		next, ok, err := first(ctx, p, m, model.TimeRange{Min: at, Max: times.Max}, "ASC")
		if err != nil || !ok {
			return out, err
		}
		at = next
	}
}

// first returns the time of the first row within times, in an order.
func first(ctx context.Context, p *Pull, m *measurement, times model.TimeRange, order string) (int64, bool, error) {
	tables, err := retry(ctx, p, func() ([]exchange.Table, error) {
		return p.source.ask(ctx, m.place, fmt.Sprintf("SELECT * FROM %s%s ORDER BY time %s LIMIT 1", p.source.source(m.place, m.name), where(times), order))
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

// retry asks until an answer comes, as long as the source may recover.
func retry[T any](ctx context.Context, p *Pull, ask func() (T, error)) (T, error) {
	for w := p.newWait(); ; {
		out, err := ask()
		if err == nil || judge(err) != again {
			return out, err
		}
		if err := w.pause(ctx, err); err != nil {
			return out, err
		}
	}
}

// wait is the time between the attempts of a request.
type wait struct {
	pull  *Pull
	until time.Time // zero before the first error: an attempt may take long
	next  time.Duration
	told  bool
}

func (p *Pull) newWait() *wait {
	return &wait{pull: p, next: p.opt.Patience / 1000}
}

// pause waits before the next attempt. It returns the error of the last one when the
// patience is at its end.
func (w *wait) pause(ctx context.Context, last error) error {
	if w.until.IsZero() {
		w.until = time.Now().Add(w.pull.opt.Patience)
	}
	if time.Now().Add(w.next).After(w.until) {
		return last
	}
	if !w.told && w.next > w.pull.opt.Patience/100 {
		w.told = true
		w.pull.report("%v; trying again for up to %s", last, time.Until(w.until).Round(time.Second))
	}
	select {
	case <-time.After(w.next):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.next = min(2*w.next, 30*time.Second)
	return nil
}

// importing is an import that begins with the first byte that is written to it.
type importing struct {
	ctx   context.Context
	pull  *Pull
	place place
	pipe  *io.PipeWriter
	stats transfer.ImportStats
	shown int64 // points that are in Stats.Underway
	err   error
	done  chan struct{}
}

// errTarget ends the source's answer after an error of the target.
var errTarget = errors.New("the target failed")

// Write implements io.Writer.
func (i *importing) Write(b []byte) (int, error) {
	if i.pipe == nil {
		r, w := io.Pipe()
		i.pipe, i.done = w, make(chan struct{})
		go func() {
			defer close(i.done)
			i.stats, i.err = transfer.Import(i.ctx, i.pull.client, r, transfer.ImportOptions{
				Database: i.place.database, RetentionPolicy: i.place.policy,
				BatchBytes: i.pull.opt.BatchBytes, Workers: 2, Failed: i.pull.opt.Refused,
				Progress: func(s transfer.ImportStats) {
					i.pull.add(func(st *Stats) { st.Underway += s.Written - i.shown })
					i.shown = s.Written
				},
			})
			_ = r.CloseWithError(errTarget) // is nil by its documentation
		}()
	}
	return i.pipe.Write(b)
}

// close ends the import after the source has ended with an error or none. It returns the
// error of the target.
func (i *importing) close(source error) error {
	if i.pipe == nil {
		return nil
	}
	_ = i.pipe.CloseWithError(source) // is nil by its documentation
	<-i.done
	i.pull.add(func(st *Stats) { st.Underway -= i.shown })
	if source != nil && !errors.Is(source, errTarget) {
		return nil // the import has the source's error
	}
	return i.err
}

// copy copies a slice once. ofTarget says that the error is the target's.
func (p *Pull) copy(ctx context.Context, m *measurement, r model.TimeRange) (c copied, stats transfer.ImportStats, ofTarget bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := &importing{ctx: ctx, pull: p, place: m.place}
	c, err = p.source.copy(ctx, m, r, to, p.opt.Refused)
	if terr := to.close(err); terr != nil {
		return c, to.stats, true, targetError{fmt.Errorf("write %s: %w", m, terr)}
	}
	if err != nil {
		return c, to.stats, false, fmt.Errorf("read %s from %s to %s: %w", m, stamp(r.Min), stamp(r.Max), err)
	}
	to.stats.Errors = append(to.stats.Errors, c.errors...)
	return c, to.stats, false, nil
}

func stamp(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }

// partName names a slice in the journal.
func partName(m *measurement, r model.TimeRange) string {
	return fmt.Sprintf("%q %q %q %d %d", m.database, m.policy, m.name, r.Min, r.Max)
}
