package pull

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
)

// FollowOptions say how new rows are found. The zero value has working defaults.
type FollowOptions struct {
	Every   time.Duration // between rounds; default 10s
	Overlap time.Duration // of the times of two rounds; default 1m
	// Recent is how far back counts are compared to find late rows; default 24h. The
	// windows that are compared are a 144th of it.
	Recent time.Duration
	Idle   time.Duration // without new rows until Follow ends; 0: never
}

func (o *FollowOptions) complete() {
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&o.Every, 10 * time.Second}, {&o.Overlap, time.Minute}, {&o.Recent, 24 * time.Hour}} {
		if *d.to <= 0 {
			*d.to = d.value
		}
	}
}

// follower is what Follow knows of earlier rounds.
type follower struct {
	*Pull
	opt     FollowOptions
	newest  map[string]int64  // time of the newest row, by measurement
	tried   map[string]string // counts of windows that were taken again, by part
	names   string            // databases and policies of the latest round
	counted time.Time         // when late rows may be looked for again
	refused bool              // the source does not count
}

// Follow takes new rows after Rows has taken the others, until the source has had none
// for opt.Idle, or ctx ends. A row is new if its time is at most Overlap before the
// beginning of the round before. Rows with earlier times are found by counts.
func (p *Pull) Follow(ctx context.Context, c *Catalog, opt FollowOptions) error {
	opt.complete()
	f := &follower{Pull: p, opt: opt, newest: map[string]int64{}, tried: map[string]string{}, names: names(c)}
	p.report("following: new rows are asked for every %s, late rows of the last %s found by counts; rows that are written for older times, changed values, and deletes are not seen", opt.Every, opt.Recent)
	since, fresh := p.began, time.Now()
	for {
		began := p.source.now()
		found, err := f.round(ctx, since.Add(-opt.Overlap), began)
		if err != nil {
			return err
		}
		since = began
		if found {
			fresh = time.Now()
		}
		if opt.Idle > 0 && time.Since(fresh) >= opt.Idle {
			p.report("no new points for %s: the writers have moved", opt.Idle)
			p.began = began
			return nil
		}
		select {
		case <-time.After(opt.Every):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func names(c *Catalog) (out string) {
	for _, d := range c.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			out += fmt.Sprintf("%q %q\n", d.Name, rp.Name)
		}
	}
	return out
}

// round takes rows with times from since on, and late ones. It reports whether any is new.
func (f *follower) round(ctx context.Context, since, now time.Time) (found bool, err error) {
	c, err := retry(ctx, f.Pull, func() (*Catalog, error) { return f.source.Catalog(ctx, &f.Pull.opt.Filter) })
	if err != nil {
		return false, err
	}
	if is := names(c); is != f.names {
		if err := f.Create(ctx, c); err != nil {
			return false, err
		}
		f.names = is
	}
	count := !f.refused && !time.Now().Before(f.counted)
	began := time.Now()
	err = f.places(ctx, c, func(d *meta.Database, rp *meta.RetentionPolicy, names []string) error {
		at := place{d.Name, rp.Name}
		times, err := f.kept(ctx, at)
		if err != nil {
			return err
		}
		for _, name := range names {
			m, err := retry(ctx, f.Pull, func() (*measurement, error) { return f.source.measurement(ctx, at, name) })
			if err != nil {
				return err
			}
			if len(m.fields) > 0 {
				is, err := f.measurement(ctx, m, times, since, now, count)
				if err != nil {
					return err
				}
				found = found || is
			}
			f.add(func(s *Stats) { s.Done += whole })
		}
		return nil
	})
	if count {
		// Counting must not become the load of the server.
		f.counted = time.Now().Add(max(6*f.opt.Every, 10*time.Since(began)))
	}
	return found, err
}

// measurement takes what is new in a measurement.
func (f *follower) measurement(ctx context.Context, m *measurement, kept model.TimeRange, since, now time.Time, count bool) (found bool, err error) {
	r := model.TimeRange{Min: since.UnixNano(), Max: now.Add(f.opt.Overlap).UnixNano()}.Intersect(kept)
	if r.Empty() {
		return false, nil
	}
	newest, err := f.takeRange(ctx, m, r)
	if err != nil {
		return false, err
	}
	before, known := f.newest[m.String()]
	if !known || newest > before {
		f.newest[m.String()] = newest
		found = newest > model.AllTime.Min
	}
	if !count {
		return found, nil
	}
	window := f.opt.Recent / 144
	begin := now.Add(-f.opt.Recent).Truncate(window)
	late, err := f.late(ctx, m, model.TimeRange{Min: begin.UnixNano(), Max: r.Min - 1}.Intersect(kept), window)
	return found || late, err
}

// takeRange takes rows without a note in the journal, and returns the newest time.
func (f *follower) takeRange(ctx context.Context, m *measurement, r model.TimeRange) (int64, error) {
	newest := model.AllTime.Min
	s := &slicer{Pull: f.Pull, stretch: &stretch{measurement: m}, newest: &newest}
	err := s.take(ctx, r, 0)
	return newest, err
}

// late takes the windows of which the source has more values than the target.
func (f *follower) late(ctx context.Context, m *measurement, r model.TimeRange, window time.Duration) (found bool, err error) {
	if r.Empty() {
		return false, nil
	}
	there, err := retry(ctx, f.Pull, func() (map[int64]map[string]int64, error) { return f.source.counts(ctx, m, r, window) })
	if refusal(err) {
		f.refused = true
		f.report("the server does not count, so late rows are not found: %v", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	here, err := f.target.counts(ctx, m, r, window)
	if err != nil {
		return false, fmt.Errorf("count %s: %w", m, err)
	}
	for _, start := range sortedKeys(there) {
		w := model.TimeRange{Min: start, Max: start + int64(window) - 1}.Intersect(r)
		if w.Empty() || !slices.ContainsFunc(sortedKeys(there[start]), func(k string) bool { return there[start][k] > here[start][k] }) {
			continue
		}
		// What the target refuses stays different.
		counts := fmt.Sprint(there[start])
		if f.tried[partName(m, w)] == counts {
			continue
		}
		f.tried[partName(m, w)] = counts
		if _, err := f.takeRange(ctx, m, w); err != nil {
			return found, err
		}
		found = true
	}
	return found, nil
}
