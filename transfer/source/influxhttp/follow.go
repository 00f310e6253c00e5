package influxhttp

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
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
	begin   time.Time                   // of following, by the clock of the source
	newest  map[string]int64            // time of the newest row, by measurement
	windows map[string]map[int64]window // of the past and of the future of a measurement, by start
	names   string                      // databases and policies of the latest round
	counted time.Time                   // when late rows may be looked for again
	refused bool                        // the source does not count
}

// window is what the source had in a window when it was counted.
type window struct {
	counts   uint64 // a hash
	complete bool   // all of it was counted, and its rows were taken
}

// Follow takes new rows after Rows has taken the others, until the source has had none
// for opt.Idle, or ctx ends. A row is new if its time is at most Overlap before the
// beginning of the round before. Rows with earlier and later times are found by counts of
// windows.
func (p *Pull) Follow(ctx context.Context, c *Catalog, opt FollowOptions) error {
	opt.complete()
	f := &follower{Pull: p, opt: opt, begin: p.began, newest: map[string]int64{}, windows: map[string]map[int64]window{}, names: names(c)}
	p.report("following: new rows are asked for every %s, rows with other times within %s by counts; what is written for times beyond that, changed values, and deletes are not seen", opt.Every, opt.Recent)
	since, fresh, told := p.began, time.Now(), time.Now()
	for last := false; ; {
		began := p.source.now()
		found, err := f.round(ctx, since.Add(-opt.Overlap), began, last)
		if err != nil {
			if ctx.Err() != nil {
				p.began = since.Add(-opt.Overlap)
			}
			return err
		}
		since = began
		p.add(func(st *Stats) { st.UpTo = began })
		if lag := p.source.now().Sub(began); lag > opt.Overlap || time.Since(told) > tellEvery {
			told = time.Now()
			p.report("following: what the old server had at %s is here, %s ago; %d points written", began.Format(time.RFC3339), lag.Round(time.Second), p.Stats().Written)
		}
		if found {
			fresh, last = time.Now(), false
		}
		if last {
			p.report("no new points for %s: the writers have moved", opt.Idle)
			p.began = began
			return nil
		}
		if last = opt.Idle > 0 && time.Since(fresh) >= opt.Idle; last {
			continue // once more, with what may have come late
		}
		select {
		case <-time.After(opt.Every):
		case <-ctx.Done():
			p.began = since.Add(-opt.Overlap)
			return context.Cause(ctx)
		}
	}
}

// tellEvery is how often Follow reports where it is.
const tellEvery = 5 * time.Minute

func names(c *Catalog) (out string) {
	for _, d := range c.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			out += fmt.Sprintf("%q %q\n", d.Name, rp.Name)
		}
	}
	return out
}

// round takes rows with times from since on, and others that counts show. It reports
// whether any is new. The last round reads the windows of the present as a whole.
func (f *follower) round(ctx context.Context, since, now time.Time, last bool) (found bool, err error) {
	c, err := retry(ctx, f.Pull, func() (*Catalog, error) { return f.source.Catalog(ctx, &f.Pull.opt.Filter) })
	if err != nil {
		return false, err
	}
	if is := names(c); is != f.names {
		if _, err := retry(ctx, f.Pull, func() (any, error) { return nil, f.Create(ctx, c) }); err != nil {
			return false, err
		}
		f.names = is
	}
	count := !f.refused && (last || !time.Now().Before(f.counted))
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
				is, err := f.measurement(ctx, m, times, since, now, count, last)
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
func (f *follower) measurement(ctx context.Context, m *measurement, kept model.TimeRange, since, now time.Time, count, last bool) (found bool, err error) {
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
	begin := now.Add(-f.opt.Recent).Truncate(f.window())
	for of, other := range map[string]model.TimeRange{
		"past of " + m.String():   {Min: begin.UnixNano(), Max: r.Min - 1},
		"future of " + m.String(): {Min: r.Max + 1, Max: now.Add(f.opt.Recent).UnixNano()},
	} {
		if f.windows[of] == nil {
			f.windows[of] = map[int64]window{}
		}
		maps.DeleteFunc(f.windows[of], func(start int64, _ window) bool { return start < begin.UnixNano() })
		late, err := f.late(ctx, m, other.Intersect(kept), f.windows[of], last)
		if err != nil {
			return found, err
		}
		found = found || late
	}
	return found, nil
}

// window returns the length of the windows that are counted.
func (f *follower) window() time.Duration { return f.opt.Recent / 144 }

// takeRange takes rows without a note in the journal, and returns the newest time.
func (f *follower) takeRange(ctx context.Context, m *measurement, r model.TimeRange) (int64, error) {
	newest := model.AllTime.Min
	s := &slicer{Pull: f.Pull, stretch: &stretch{measurement: m}, newest: &newest}
	err := s.take(ctx, r, 0)
	return newest, err
}

// late takes the windows of r that have rows which the target may lack. What the target
// has says little while writers move, because they write to it as well. So a window that
// ends while Follow runs is read once more as a whole, and each window when the source's
// counts of it change.
func (f *follower) late(ctx context.Context, m *measurement, r model.TimeRange, known map[int64]window, last bool) (found bool, err error) {
	if r.Empty() {
		return false, nil
	}
	there, err := retry(ctx, f.Pull, func() (map[int64]map[string]int64, error) { return f.source.counts(ctx, m, r, f.window()) })
	if refusal(err) {
		f.refused = true
		f.report("the server does not count, so late rows are not found: %v", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	maps.DeleteFunc(there, func(_ int64, counts map[string]int64) bool { return total(counts) == 0 })
	if len(there) == 0 {
		return false, nil
	}
	here, err := retry(ctx, f.Pull, func() (map[int64]map[string]int64, error) { return f.target.counts(ctx, m, r, f.window()) })
	if err != nil {
		return false, targetError{fmt.Errorf("count %s: %w", m, err)}
	}
	for _, start := range sortedKeys(there) {
		whole := model.TimeRange{Min: start, Max: start + int64(f.window()) - 1}
		part := whole.Intersect(r)
		if part.Empty() {
			continue
		}
		before, seen := known[start]
		now := window{countsHash(there[start]), part == whole || last}
		take := before.counts != now.counts
		switch {
		case seen && before.complete:
			found = found || take
		case now.complete && part.Max >= f.begin.UnixNano():
			take, found = true, found || seen && take
		default:
			found = found || seen && take || !seen && more(there[start], here[start])
			take = !maps.Equal(there[start], here[start])
		}
		if take {
			if _, err := f.takeRange(ctx, m, part); err != nil {
				return found, err
			}
		}
		known[start] = now
	}
	return found, nil
}

// total adds up the counts of fields.
func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// more reports that a field has more values there than here.
func more(there, here map[string]int64) bool {
	return slices.ContainsFunc(sortedKeys(there), func(k string) bool { return there[k] > here[k] })
}

// countsHash returns a hash of the counts of fields.
func countsHash(counts map[string]int64) uint64 {
	h := fnv.New64a()
	for _, k := range sortedKeys(counts) {
		fmt.Fprintf(h, "%q %d\n", k, counts[k]) // never fails
	}
	return h.Sum64()
}
