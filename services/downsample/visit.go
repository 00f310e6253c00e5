package downsample

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/store/touched"
)

// Bounds of a visit.
const (
	visitTime     = 2 * time.Second // after it nothing else is begun
	visitFailures = 64              // after as many, too
	pieceFailures = 2               // of one span, after which others come first
	sliceMost     = 10_000          // windows of all measurements that are computed at once
	commitMost    = 1000            // ranges of windows in one change of the catalog
)

// errMore says that a visit has left windows that are to be computed.
var errMore = errors.New("more windows are waiting")

// visit computes windows of a downsample that have ended, from entries up to a sequence, or later
// ones.
func (s *Service) visit(ctx context.Context, db *meta.Database, d *meta.Downsample, t *task, sequence uint64) error {
	spans := s.opt.Marks.Waiting(d.ID, s.due(d))
	v := &visitor{Service: s, ctx: ctx, db: db, d: d, task: t, begun: s.opt.Now(), expired: model.MinTime}
	if end := s.expired(db, d); end > model.MinTime {
		v.expired = d.Free(end)
	}
	v.done = meta.CompleteWindows{ID: d.ID, Sequence: sequence}
	var whole *touched.Span
	if n := len(spans); n > 0 && spans[n-1].Measurement == "" {
		spans, whole = spans[:n-1], &spans[n-1]
	}
	if t.stopped != (touched.Span{}) {
		spans, t.stopped = turn(spans, t.stopped), touched.Span{}
	}
	var err error
	s.mu.Lock()
	list, failing := t.failing.order(spans, v.begun)
	t.failing = failing
	s.mu.Unlock()
	if whole != nil && whole.From < v.expired {
		err = v.slices(whole.From, min(whole.To, d.Ceil(v.expired)))
		v.more, whole, v.begun = true, nil, s.opt.Now()
	}
	if err == nil {
		slices.SortStableFunc(list, func(a, b piece) int { return cmp.Compare(min(a.from, v.expired), min(b.from, v.expired)) })
		err = v.pieces(list)
	}
	if err == nil && whole != nil { // at least some of it, whatever else there is
		v.begun = s.opt.Now()
		err = v.slices(whole.From, whole.To)
		v.more = true
	}
	err = errors.Join(err, v.commit())
	if v.failures > 0 {
		s.opt.Logger.Error("windows of a downsample cannot be computed, they will be tried again", "db", db.Name, "from", d.From, "into", d.Into, "windows", v.failures, "err", v.firstErr)
	}
	switch {
	case err != nil:
		return err
	case v.more && v.computedAny: // else rest
		return errMore
	}
	return nil
}

// turn returns the spans from the place on where the latest visit stopped, and then those
// before it. So windows that rows touch all the time do not keep later ones back.
func turn(spans []touched.Span, at touched.Span) []touched.Span {
	var first, last []touched.Span
	for _, sp := range spans {
		switch {
		case sp.Measurement == at.Measurement && sp.From < at.From && at.From < sp.To:
			last = append(last, touched.Span{Measurement: sp.Measurement, From: sp.From, To: at.From})
			first = append(first, touched.Span{Measurement: sp.Measurement, From: at.From, To: sp.To})
		case cmp.Or(cmp.Compare(sp.From, at.From), cmp.Compare(sp.Measurement, at.Measurement)) < 0:
			last = append(last, sp)
		default:
			first = append(first, sp)
		}
	}
	return append(first, last...)
}

// visitor is a visit under way.
type visitor struct {
	*Service
	ctx   context.Context
	db    *meta.Database
	d     *meta.Downsample
	task  *task
	begun time.Time
	done  meta.CompleteWindows
	// Windows before expired need rows of the source that are kept for downsamples alone.
	expired int64

	more        bool  // windows are left
	failures    int   // windows that failed
	firstErr    error // of the first of them
	computedAny bool  // some did not
}

// pieces computes windows of measurements. A window that fails is left out, and keeps
// neither the windows after it nor other measurements back.
func (v *visitor) pieces(list []piece) error {
	for n := 0; n < len(list); n++ {
		p := list[n]
		if floor := v.floor(); p.from < floor { // what the source has lost by its age stays in the target
			v.complete(p.measurement, p.from, min(p.to, floor), v.done.Sequence)
			p.from = min(p.to, floor)
		}
		failed := 0
		for p.from < p.to {
			if v.opt.Now().Sub(v.begun) > visitTime || v.failures >= visitFailures {
				v.more = true
				v.task.stopped = touched.Span{Measurement: p.measurement, From: p.from, To: p.to}
				return nil
			}
			if failed == pieceFailures && !p.last {
				p.last = true
				list = append(list, p)
				break
			}
			from := p.from
			target, err := v.compute(&p)
			if v.ctx.Err() != nil {
				return v.ctx.Err()
			}
			if err != nil {
				failed++
				v.failed(p.measurement, from, v.d.End(from), p.tries, err)
				p.from = min(p.to, v.d.End(from))
				continue
			}
			v.complete(p.measurement, from, p.from, target)
			v.mu.Lock()
			v.task.failing = v.task.failing.without(p.measurement, from, p.from)
			v.mu.Unlock()
			if len(v.done.Windows) >= commitMost {
				if err := v.commit(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// failed notes a window that cannot be computed at present.
func (v *visitor) failed(measurement string, from, to int64, tries int, err error) {
	v.failures++
	v.Service.failures.Add(1)
	v.firstErr = cmp.Or(v.firstErr, err)
	tries++
	v.mu.Lock()
	defer v.mu.Unlock()
	v.task.failing = v.task.failing.with(failure{measurement, from, to, tries, err.Error(), v.opt.Now().Add(pause(v.d.At(from).Every, tries))})
}

// commit has the log take what is complete.
func (v *visitor) commit() error {
	if len(v.done.Windows) == 0 {
		return nil
	}
	err := v.opt.Complete(v.ctx, v.done)
	v.done.Windows = nil // whoever has the last may still read it
	return err
}

func (v *visitor) complete(measurement string, from, to int64, target uint64, except ...string) {
	v.done.Windows = append(v.done.Windows, meta.ComputedWindows{Measurement: measurement, Except: except, From: from, To: to, Target: target})
	v.computedAny = true
}

// floor returns the start of the first window that is computed: the source has all its
// rows that were not deleted, and the target keeps rows of that time. The first window of
// all time is not computed: the start of time cuts it off, and no SELECT gives its row that time.
func (v *visitor) floor() int64 {
	floor := max(v.d.End(model.MinTime), v.d.Floor(v.db.RetentionPolicy(v.d.From)))
	if into := v.db.RetentionPolicy(v.d.Into); into.Duration > 0 {
		floor = max(floor, v.d.Ceil(v.opt.Now().Add(-into.Duration).UnixNano()))
	}
	return floor
}

// slices computes windows of all measurements from a time on, as long as a visit may take.
func (v *visitor) slices(from, to int64) (err error) {
	for err == nil && from < to {
		from, err = v.slice(from, to)
		if err == nil && len(v.done.Windows) >= commitMost {
			err = v.commit()
		}
		if v.opt.Now().Sub(v.begun) > visitTime || v.failures >= visitFailures {
			break
		}
	}
	return err
}

// slice computes windows of all measurements from a time on, as many as are computed at
// once, and returns their end. A measurement that fails does not keep the others back: it is
// marked by itself.
func (v *visitor) slice(from, to int64) (int64, error) {
	if floor := v.floor(); from < floor {
		v.complete("", from, min(to, floor), v.done.Sequence)
		if from = min(to, floor); from == to {
			return to, nil
		}
	}
	names, groups, next, err := v.measurements(from)
	if err != nil {
		return from, err
	}
	// The window that holds next has rows of measurements that only the shard after it has.
	to = min(to, max(v.d.Start(next), v.d.End(from)))
	if len(names) == 0 { // no shard has anything before next
		v.complete("", from, to, v.done.Sequence)
		return to, nil
	}
	to = min(to, v.d.After(from, min(max(int64(v.opt.Rows)/groups, 1), sliceMost)))
	begin := time.Now()
	var except []string
	for _, name := range names {
		p := piece{measurement: name, from: from, to: to}
		for p.from < to {
			at, written := p.from, v.written.Load()+v.deleted.Load()
			target, err := v.compute(&p)
			if v.ctx.Err() != nil {
				return p.from, v.ctx.Err()
			}
			if err != nil {
				v.failed(name, at, v.d.End(at), 0, err)
				except = append(except, name)
				break
			}
			if v.written.Load()+v.deleted.Load() > written { // what the target got are marks as well
				v.complete(name, at, p.from, target)
			}
		}
	}
	v.complete("", from, to, v.done.Sequence, except...)
	// Clients come first: rest as long as the work took.
	select {
	case <-time.After(min(time.Since(begin), visitTime)):
	case <-v.ctx.Done():
	}
	return to, v.ctx.Err()
}

// measurements returns the measurements that source or target have in the window that
// begins at from, how many rows a window of them has, and where the next shard begins or
// these end.
func (v *visitor) measurements(from int64) (names []string, groups, next int64, err error) {
	var series [2]int64 // of the source and the target
	found, takes := map[string]bool{}, v.d.Takes()
	r := model.TimeRange{Min: from, Max: v.d.End(from) - 1}
	next = model.MaxTime
	for i, policy := range []string{v.d.From, v.d.Into} {
		err := v.view(policy, r, func(sh scan.Shard) error {
			for _, name := range sh.Measurements() {
				if takes(name) {
					found[name] = true
				}
			}
			series[i] = max(series[i], int64(sh.AllSeries().GetCardinality()))
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
	return slices.Sorted(maps.Keys(found)), v.groups(from, series), next, nil
}

// groups returns how many rows a window has at most, about, where the source and the target have
// so many series. A definition that drops tags makes as many as the target has.
func (v *visitor) groups(at int64, series [2]int64) int64 {
	if d := v.d.At(at); (d.Grouped || len(d.Without) > 0) && series[1] > 0 {
		series[0] = 0
	}
	return max(series[0], series[1], 1)
}

// compute computes the first windows of a piece and takes them off. It returns the
// sequence up to which the target is right (align).
func (v *visitor) compute(p *piece) (target uint64, err error) {
	var series [2]int64 // of the source and the target
	r := model.TimeRange{Min: p.from, Max: p.to - 1}
	for i, policy := range []string{v.d.From, v.d.Into} {
		err := v.view(policy, r, func(sh scan.Shard) error {
			set, err := sh.Select(v.ctx, p.measurement, nil)
			if err == nil {
				series[i] = max(series[i], int64(set.GetCardinality()))
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	most := max(int64(v.opt.Rows)/v.groups(p.from, series), 1)
	if p.most == 0 || p.most > most {
		p.most = most
	}
	for {
		to := min(p.to, v.d.After(p.from, p.most), v.d.Change(p.from))
		target, err := v.align(p.measurement, p.from, to)
		if err == nil {
			v.computed.Add(uint64(v.d.Windows(p.from, to)))
			p.from, p.most = to, 2*p.most
			return target, nil
		}
		n := v.d.Windows(p.from, to)
		if n == 1 || v.ctx.Err() != nil {
			p.most = 1
			return 0, err
		}
		p.most = 1 // one of them fails: which?
		if errors.Is(err, admission.ErrMemory) || errors.Is(err, admission.ErrQueryTimeout) {
			p.most = n / 2
		}
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
