package influxhttp

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/transfer/mover"
)

// FollowOptions say how new rows are found. The zero value has working defaults.
type FollowOptions struct {
	Every   time.Duration // between rounds; default 10s
	Overlap time.Duration // of the times of two rounds; default 1m
	// Recent is how far back counts are compared to find late rows; default 24h. The
	// windows that are compared are a 144th of it.
	Recent time.Duration
	Idle   time.Duration   // without new rows until Follow ends; 0: never
	UpTo   func(time.Time) // if set, gets after each round when the source had what is here
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
	*Source
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

// Follow takes new rows after the others were moved, until the source has had none for
// opt.Idle, or ctx ends. A row is new if its time is at most Overlap before the beginning of the
// round before. Rows with earlier and later times are found by counts of windows. move moves the
// parts of a round, which go to no journal, and returns how many points were written in all.
func (s *Source) Follow(ctx context.Context, opt FollowOptions, move func(ctx context.Context, round mover.Source) (written int64, err error)) error {
	opt.complete()
	s.opt.Journal = false
	f := &follower{Source: s, opt: opt, begin: s.began, newest: map[string]int64{}, windows: map[string]map[int64]window{}, names: names(s.catalog)}
	s.note("following: new rows are asked for every %s, rows with other times within %s by counts; what is written for times beyond that, changed values, and deletes are not seen", opt.Every, opt.Recent)
	since, fresh, noted := s.began, time.Now(), time.Now()
	for last := false; ; {
		r := &round{follower: f, since: since.Add(-opt.Overlap), now: s.server.Now(), last: last}
		written, err := move(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				s.began = r.since
			}
			return err
		}
		since = r.now
		if opt.UpTo != nil {
			opt.UpTo(since)
		}
		if lag := s.server.Now().Sub(since); lag > opt.Overlap || time.Since(noted) > noteEvery {
			noted = time.Now()
			s.note("following: what the old server had at %s is here, %s ago; %d points written", since.Format(time.RFC3339), lag.Round(time.Second), written)
		}
		if r.fresh() {
			fresh, last = time.Now(), false
		}
		if last {
			s.note("no new points for %s: the writers have moved", opt.Idle)
			s.began = since
			return nil
		}
		if last = opt.Idle > 0 && time.Since(fresh) >= opt.Idle; last {
			continue // once more, with what may have come late
		}
		select {
		case <-time.After(opt.Every):
		case <-ctx.Done():
			s.began = since.Add(-opt.Overlap)
			return context.Cause(ctx)
		}
	}
}

// noteEvery is how often Follow reports where it is.
const noteEvery = 5 * time.Minute

func names(c *Catalog) (out string) {
	for _, d := range c.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			out += fmt.Sprintf("%q %q\n", d.Name, rp.Name)
		}
	}
	return out
}

// round is a mover.Source of the rows with times from since on, and of others that counts show.
// The last round reads the windows of the present as a whole.
type round struct {
	*follower
	since, now time.Time
	last       bool
	found      bool       // late rows
	taken      []*stretch // of the rows from since on
}

// fresh reports whether the round has found rows that are new.
func (r *round) fresh() bool {
	for _, st := range r.taken {
		newest := st.newest.Load()
		if before, known := r.newest[st.String()]; !known || newest > before {
			r.newest[st.String()] = newest
			r.found = r.found || newest > model.AllTime.Min
		}
	}
	return r.found
}

// Catalog implements mover.Source. Databases that are new are made at once, as long as the
// target may recover.
func (r *round) Catalog(ctx context.Context, _ *exchange.Filter) (*mover.Catalog, error) {
	c, err := retry(ctx, r.Source, func() (*Catalog, error) { return r.server.Catalog(ctx, &r.Source.opt.Filter) })
	if err != nil {
		return nil, err
	}
	r.catalog = c
	if is := names(c); is != r.names {
		if _, err := retry(ctx, r.Source, func() ([]string, error) {
			made, _, err := r.target.client.Create(ctx, c.Data, &r.Source.opt.Filter, "", "")
			return made, err
		}); err != nil {
			return nil, err
		}
		r.names = is
	}
	return &mover.Catalog{}, nil
}

// Parts implements mover.Source.
func (r *round) Parts(ctx context.Context, _ *exchange.Filter) iter.Seq2[*mover.Part, error] {
	return func(yield func(*mover.Part, error) bool) {
		count := !r.refused && (r.last || !time.Now().Before(r.counted))
		began := time.Now()
		stop := errors.New("nobody wants more")
		take := func(st *stretch, of model.TimeRange) error {
			if !yield(r.part(st, of, 0, 0), nil) {
				return stop
			}
			return nil
		}
		all, err := r.measurements(ctx, r.catalog)
		var times model.TimeRange // that the target keeps of the policy
		for i := 0; i < len(all) && err == nil; i++ {
			if i == 0 || all[i].place != all[i-1].place {
				times, err = r.kept(ctx, all[i].place)
			}
			if err == nil {
				err = r.measurement(ctx, all[i], times, count, take)
			}
		}
		if count {
			// Counting must not become the load of the server.
			r.counted = time.Now().Add(max(6*r.opt.Every, 10*time.Since(began)))
		}
		if err != nil && !errors.Is(err, stop) {
			yield(nil, explain(err))
		}
	}
}

// measurement takes what is new in a measurement.
func (r *round) measurement(ctx context.Context, m *measurement, kept model.TimeRange, count bool, take func(st *stretch, of model.TimeRange) error) error {
	of := model.TimeRange{Min: r.since.UnixNano(), Max: r.now.Add(r.opt.Overlap).UnixNano()}.Intersect(kept)
	if of.Empty() {
		return nil
	}
	st := newStretch(m)
	r.taken = append(r.taken, st)
	if err := take(st, of); err != nil || !count {
		return err
	}
	begin := r.now.Add(-r.opt.Recent).Truncate(r.window())
	for name, other := range map[string]model.TimeRange{
		"past of " + m.String():   {Min: begin.UnixNano(), Max: of.Min - 1},
		"future of " + m.String(): {Min: of.Max + 1, Max: r.now.Add(r.opt.Recent).UnixNano()},
	} {
		if r.windows[name] == nil {
			r.windows[name] = map[int64]window{}
		}
		maps.DeleteFunc(r.windows[name], func(start int64, _ window) bool { return start < begin.UnixNano() })
		if err := r.late(ctx, m, other.Intersect(kept), r.windows[name], take); err != nil {
			return err
		}
	}
	return nil
}

// window returns the length of the windows that are counted.
func (f *follower) window() time.Duration { return f.opt.Recent / 144 }

// late takes the windows of r that have rows which the target may lack. What the target
// has says little while writers move, because they write to it as well. So a window that
// ends while Follow runs is read once more as a whole, and each window when the source's
// counts of it change.
func (r *round) late(ctx context.Context, m *measurement, of model.TimeRange, known map[int64]window, take func(st *stretch, of model.TimeRange) error) error {
	if of.Empty() {
		return nil
	}
	there, err := retry(ctx, r.Source, func() (map[int64]map[string]int64, error) { return r.server.counts(ctx, m, of, r.window()) })
	if refusal(err) {
		r.refused = true
		r.note("the server does not count, so late rows are not found: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	maps.DeleteFunc(there, func(_ int64, counts map[string]int64) bool { return total(counts) == 0 })
	if len(there) == 0 {
		return nil
	}
	here, err := retry(ctx, r.Source, func() (map[int64]map[string]int64, error) { return r.target.counts(ctx, m, of, r.window()) })
	if err != nil {
		return &mover.TargetError{Err: fmt.Errorf("count %s: %w", m, err)}
	}
	for _, start := range sortedKeys(there) {
		whole := model.TimeRange{Min: start, Max: start + int64(r.window()) - 1}
		part := whole.Intersect(of)
		if part.Empty() {
			continue
		}
		before, seen := known[start]
		now := window{countsHash(there[start]), part == whole || r.last}
		taken := before.counts != now.counts
		switch {
		case seen && before.complete:
			r.found = r.found || taken
		case now.complete && part.Max >= r.begin.UnixNano():
			taken, r.found = true, r.found || seen && taken
		default:
			r.found = r.found || seen && taken || !seen && more(there[start], here[start])
			taken = !maps.Equal(there[start], here[start])
		}
		if taken {
			if err := take(newStretch(m), part); err != nil {
				return err
			}
		}
		known[start] = now
	}
	return nil
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
