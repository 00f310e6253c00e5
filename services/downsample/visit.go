package downsample

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
)

// Bounds of a visit.
const (
	visitSpans = 256             // spans of measurements
	visitTime  = 2 * time.Second // after it no other span is begun
	sliceMost  = 10_000          // windows of all measurements that are computed between two commits
)

// errMore says that a visit has left windows that are to be computed.
var errMore = errors.New("more windows are waiting")

// visit computes windows of a downsample that have ended.
func (s *Service) visit(ctx context.Context, db *meta.Database, d *meta.Downsample) error {
	v := &visitor{Service: s, ctx: ctx, db: db, d: d, begun: time.Now()}
	spans := s.opt.Marks.Waiting(d.ID, s.due(d), visitSpans)
	if len(spans) == 0 {
		return nil
	}
	v.done = meta.CompleteWindows{ID: d.ID, Sequence: s.opt.Applied()} // of entries that touched the spans, or later
	floor := v.floor()
	var failed error // the first
	more := false
	for _, sp := range spans {
		if sp.From < floor { // what the source has lost by its age stays in the target
			v.complete(sp.Measurement, sp.From, min(sp.To, floor))
			sp.From = min(sp.To, floor)
		}
		for sp.From < sp.To {
			if more = time.Since(v.begun) > visitTime; more {
				break
			}
			compute := v.windows
			if sp.Measurement == "" {
				compute = v.slice
			}
			upTo, err := compute(sp.Measurement, sp.From, sp.To)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed = cmp.Or(failed, err)
			if upTo == sp.From {
				break
			}
			sp.From = upTo
		}
	}
	if len(v.done.Windows) > 0 {
		if err := s.opt.Complete(ctx, v.done); err != nil {
			return errors.Join(failed, err)
		}
	}
	switch {
	case failed != nil:
		return failed
	case more || len(spans) >= visitSpans || spans[len(spans)-1].Measurement == "":
		return errMore
	case v.partial != nil:
		return &refusedError{v.partial}
	}
	return nil
}

// refusedError says that a visit has computed all windows, but the target can never store
// some of the rows.
type refusedError struct{ error }

// visitor is a visit under way.
type visitor struct {
	*Service
	ctx   context.Context
	db    *meta.Database
	d     *meta.Downsample
	begun time.Time
	done  meta.CompleteWindows

	partial error // some rows could not be stored
}

func (v *visitor) complete(measurement string, from, to int64, except ...string) {
	v.done.Windows = append(v.done.Windows, meta.ComputedWindows{Measurement: measurement, Except: except, From: from, To: to})
}

// floor returns the start of the first window that is computed: the source has all its
// rows that were not deleted, and the target keeps rows of that time.
func (v *visitor) floor() int64 {
	floor := int64(model.MinTime)
	if from := v.db.RetentionPolicy(v.d.From); from.Expired != 0 {
		floor = v.up(from.Expired)
	}
	if into := v.db.RetentionPolicy(v.d.Into); into.Duration > 0 {
		floor = max(floor, v.up(v.opt.Now().Add(-into.Duration).UnixNano()))
	}
	return floor
}

// up returns the start of the first window that does not begin before a time.
func (v *visitor) up(at int64) int64 {
	if start := v.d.Start(at); start != at {
		return start + int64(v.d.Every)
	}
	return at
}

// slice computes windows of all measurements from a time on, and returns up to where. A
// measurement that fails does not keep the others back: it is marked by itself.
func (v *visitor) slice(_ string, from, to int64) (int64, error) {
	names, series, next, err := v.measurements(from)
	if err != nil {
		return from, err
	}
	// The window that holds next has rows of measurements that only the shard after it has.
	to = min(to, max(v.d.Start(next), from+int64(v.d.Every)))
	if len(names) == 0 { // no shard has anything before next
		v.complete("", from, to)
		return to, nil
	}
	n := min(max(int64(v.opt.Rows)/max(series, 1), 1), sliceMost)
	to = min(to, from+n*int64(v.d.Every))
	begin := time.Now()
	var failed error
	var except []string
	for _, name := range names {
		for at := from; at < to; {
			if at, err = v.compute(name, at, to); err != nil {
				failed = cmp.Or(failed, err)
				except = append(except, name)
				break
			}
		}
		if v.ctx.Err() != nil {
			return from, v.ctx.Err()
		}
	}
	v.complete("", from, to, except...)
	// Clients come first: rest as long as the work took.
	select {
	case <-time.After(min(time.Since(begin), visitTime)):
	case <-v.ctx.Done():
	}
	return to, failed
}

// measurements returns the measurements that source or target have in the window that
// begins at from, how many series they have, and where the next shard begins or these
// end.
func (v *visitor) measurements(from int64) (names []string, series, next int64, err error) {
	found := map[string]bool{}
	r := model.TimeRange{Min: from, Max: from + int64(v.d.Every) - 1}
	next = model.MaxTime
	for _, policy := range []string{v.d.From, v.d.Into} {
		err := v.view(policy, r, func(sh scan.Shard) error {
			for _, name := range sh.Measurements() {
				found[name] = true
			}
			series = max(series, int64(sh.AllSeries().GetCardinality()))
			return nil
		})
		if err != nil {
			return nil, 0, 0, err
		}
		for _, g := range v.db.RetentionPolicy(policy).ShardGroups {
			for _, edge := range []int64{g.Start, g.End} {
				if edge > from {
					next = min(next, edge)
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), series, next, nil
}

// windows is compute, and notes what is complete.
func (v *visitor) windows(measurement string, from, to int64) (int64, error) {
	to, err := v.compute(measurement, from, to)
	if to > from {
		v.complete(measurement, from, to)
	}
	return to, err
}

// compute computes windows of a measurement from a time on, and returns up to where.
func (v *visitor) compute(measurement string, from, to int64) (int64, error) {
	series := int64(0)
	r := model.TimeRange{Min: from, Max: to - 1}
	for _, policy := range []string{v.d.From, v.d.Into} {
		err := v.view(policy, r, func(sh scan.Shard) error {
			set, err := sh.Select(v.ctx, measurement, nil)
			if err == nil {
				series = max(series, int64(set.GetCardinality()))
			}
			return err
		})
		if err != nil {
			return from, err
		}
	}
	n := max(int64(v.opt.Rows)/max(series, 1), 1)
	for {
		upTo := min(to, from+n*int64(v.d.Every))
		err := v.align(measurement, from, upTo)
		tooMuch := errors.Is(err, admission.ErrMemory) || errors.Is(err, admission.ErrQueryTimeout)
		if tooMuch && n > 1 && upTo-from > int64(v.d.Every) {
			n = (upTo - from) / int64(v.d.Every) / 2
			continue
		}
		if err != nil {
			return from, fmt.Errorf("measurement %s, windows from %s: %w", measurement, time.Unix(0, from).UTC().Format(time.RFC3339), err)
		}
		v.computed.Add(uint64((upTo - from) / int64(v.d.Every)))
		return upTo, nil
	}
}

// view calls f with the shards of a policy in a range.
func (v *visitor) view(policy string, r model.TimeRange, f func(scan.Shard) error) error {
	view, err := v.opt.Storage.View(v.db.Name, policy, r)
	if err != nil {
		return err
	}
	defer view.Release()
	for _, sh := range view.Shards() {
		if err := f(sh); err != nil {
			return err
		}
	}
	return nil
}
