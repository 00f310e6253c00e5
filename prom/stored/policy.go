package stored

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/internal/quantiles"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/prom/queryable"
	"tsdbd/prom/window"
	"tsdbd/query/engine/plan"
	groups "tsdbd/query/window"
)

// Downsamples knows the policies that have aggregates of the samples of others.
type Downsamples interface {
	plan.Downsamples
	// Default returns the name of the default policy of a database.
	Default(database string) string
	// Reach returns up to where a policy has lost samples, and up to where downsamples may
	// stand for its samples.
	Reach(database, policy string) (lost, stored int64)
}

// Policy is a retention policy with its downsamples. All that is exported is required.
type Policy struct {
	Downsamples Downsamples
	Storage     scan.Storage
	DB, RP      string // RP "": the default policy
	// Charge is that of queryable.Source. What is charged for more than samples is held until
	// the caller gives it back.
	Charge func(bytes int64) error
	// Unused is called for each range of lost samples for which a downsample does not answer.
	Unused func()
	// Notes say which samples are from downsamples, and which are lost.
	Notes annotations.Annotations
}

// Series are the series of the selector of a plan. The caller closes them.
type Series interface {
	window.Reader
	Warnings() annotations.Annotations
	Close()
}

// reads says what a selector reads of a policy.
type reads struct {
	policy     string
	mint, maxt int64 // ms, both inclusive
	matchers   []*labels.Matcher
	targets    []plan.Target
	longest    time.Duration // windows
}

// reads returns what a selector reads, and false if no downsample may stand for any of it.
func (p *Policy) reads(mint, maxt int64, matchers []*labels.Matcher) (reads, bool) {
	of := reads{policy: p.RP, mint: mint, maxt: maxt, matchers: matchers}
	if of.policy == "" {
		of.policy = p.Downsamples.Default(p.DB)
	}
	if _, stored := p.Downsamples.Reach(p.DB, of.policy); mint > maxt || nanoseconds(mint) >= stored {
		return reads{}, false
	}
	of.targets = p.Downsamples.Targets(p.DB, of.policy)
	for _, t := range of.targets {
		of.longest = max(of.longest, t.Every())
	}
	return of, len(of.targets) > 0
}

// nanoseconds returns a time in milliseconds as storage has it.
func nanoseconds(ms int64) int64 {
	return min(max(ms, model.MinTime/scale), model.MaxTime/scale) * scale
}

// Reaches reports whether a downsample may stand for some of what a plan reads.
func (p *Policy) Reaches(of *window.Plan) bool {
	mint, maxt := of.Reads()
	_, ok := p.reads(mint, maxt, nil)
	return ok
}

// targets returns the targets of a policy with all their columns, or those of them whose rows
// are of one series each.
func (p *Policy) targets(of *reads, series bool) (list []queryable.Source) {
	for _, t := range of.targets { // definitions of a target follow each other
		if series && !t.Series {
			continue
		}
		if n := len(list); n == 0 || list[n-1].RP != t.Policy {
			list = append(list, p.target(t.Policy))
		}
		last := &list[len(list)-1]
		for _, column := range t.Columns {
			if !slices.Contains(last.Columns, column) {
				last.Columns = append(last.Columns, column)
			}
		}
	}
	return list
}

// target returns columns of a target as samples.
func (p *Policy) target(policy string, columns ...string) queryable.Source {
	return queryable.Source{Storage: p.Storage, DB: p.DB, RP: policy, Columns: columns, Charge: p.Charge}
}

// fields are those of the metrics that a selector chooses, by measurement.
type fields map[string][]string

func (f fields) add(measurement string, names ...string) {
	for _, name := range names {
		if !slices.Contains(f[measurement], name) {
			f[measurement] = append(f[measurement], name)
		}
	}
}

// measurements returns the measurements of which targets have one of some columns, or any of
// their columns if there are none.
func (p *Policy) measurements(ctx context.Context, of *reads, columns ...string) (fields, error) {
	mint, all := of.mint-of.longest.Milliseconds(), fields{}
	for _, src := range p.targets(of, false) {
		if len(columns) > 0 {
			src.Columns = columns
		}
		if err := src.Measurements(ctx, mint, of.maxt, of.matchers, func(name string, fields []string) { all.add(name, fields...) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// times returns the times that are read.
func (of *reads) times() model.TimeRange {
	return model.TimeRange{Min: nanoseconds(of.mint), Max: nanoseconds(of.maxt+1) - 1}
}

// ask returns the segments of targets that stand for samples, and for which lost samples none do.
func (p *Policy) ask(of *reads, ask *plan.Ask) (segments []plan.Segment, unused []plan.Unused) {
	read := of.times()
	ask.Database, ask.Policy, ask.Windows = p.DB, of.policy, &groups.Windows{}
	// A step reads whole windows, and one before its range. So all windows with a time of the
	// range must be inside of what is asked about.
	every := int64(of.longest)
	ask.Range = model.TimeRange{Min: max(read.Min, model.MinTime+2*every) - 2*every, Max: min(read.Max, model.MaxTime-every) + every}
	return p.Downsamples.Segments(ask)
}

// noteUnused notes for which lost samples no target stands.
func (p *Policy) noteUnused(of *reads, unused []plan.Unused) {
	for _, u := range unused {
		if u.TimeRange = u.Intersect(of.times()); !u.Empty() {
			p.Unused()
			p.Notes.Add(fmt.Errorf("%w: %s", annotations.PromQLWarning, u.Note("samples", of.policy)))
		}
	}
}

// Unread notes which of the samples that an expression reads one by one are lost, although a
// downsample has something of them.
func (p *Policy) Unread(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) error {
	of, ok := p.reads(mint, maxt, matchers)
	if !ok {
		return nil
	}
	all, err := p.measurements(ctx, &of)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, unused := p.ask(&of, &plan.Ask{Measurement: name, Refused: "the expression needs all samples"})
		p.noteUnused(&of, unused)
	}
	return err
}

// Labels returns readers of the labels of targets between two times in milliseconds, as far as
// the policy has lost its samples. The caller closes them, also with an error.
func (p *Policy) Labels(mint, maxt int64) (all []storage.Querier, err error) {
	of, ok := p.reads(mint, maxt, nil)
	if !ok {
		return nil, nil
	}
	lost, _ := p.Downsamples.Reach(p.DB, of.policy)
	if nanoseconds(mint) >= lost {
		return nil, nil
	}
	for _, src := range p.targets(&of, true) {
		q, err := src.Querier(mint, min(maxt, floor(lost-1)))
		if err != nil {
			return all, err
		}
		all = append(all, q)
	}
	return all, nil
}

// Series returns the series of a plan with windows of downsamples in place of samples. found has
// the series with samples, which belong to the callee.
func (p *Policy) Series(ctx context.Context, of *window.Plan, found *queryable.Found) (Series, error) {
	mint, maxt := of.Reads()
	read, ok := p.reads(mint, maxt, of.Matchers())
	if !ok {
		return found, nil
	}
	way, choices, samples, err := p.choose(ctx, of, &read, found)
	if err != nil {
		found.Close()
		return nil, err
	}
	if len(choices) == 0 {
		return found, nil
	}
	j := &joined{charge: p.Charge, way: way, choices: choices, warnings: found.Warnings()}
	found.Close()
	if !samples.Empty() {
		src := queryable.Source{Storage: p.Storage, DB: p.DB, RP: p.RP, Charge: p.Charge}
		err = j.read(ctx, &src, samples, of.Matchers())
		j.samples = true
	}
	if err == nil {
		err = p.readTargets(ctx, j, of.Matchers())
	}
	if err == nil {
		err = j.join()
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// readTargets adds the columns of the targets.
func (p *Policy) readTargets(ctx context.Context, j *joined, matchers []*labels.Matcher) error {
	times := map[string]window.Span{}
	for _, c := range j.choices {
		for i := range c.segments {
			s := &c.segments[i]
			read := c.schedule.Windows
			read.From -= c.every.Milliseconds() // the window before
			if span := spanOf(s).Within(read); !span.Empty() {
				times[s.Policy] = times[s.Policy].Union(span)
			}
		}
	}
	for policy := range times {
		j.policies = append(j.policies, policy)
	}
	slices.Sort(j.policies)
	for _, policy := range j.policies {
		for _, column := range j.way.Columns() {
			src := p.target(policy, column)
			if err := j.read(ctx, &src, times[policy], matchers); err != nil {
				return err
			}
		}
	}
	return nil
}

// offer is what targets have for a way to compute a plan, by measurement.
type offer struct {
	way      *window.Way // nil: there is none
	segments [][]plan.Segment
	unused   [][]plan.Unused
	covered  float64 // of the times that are read, of all measurements
}

// byField reports whether some target has functions of single fields.
func (of *reads) byField() bool {
	return slices.ContainsFunc(of.targets, func(t plan.Target) bool { return len(t.ColumnsOf("")) < len(t.Columns) })
}

// offer asks targets for what a way needs of all fields of a measurement.
func (p *Policy) offer(ctx context.Context, of *window.Plan, read *reads, way *window.Way, all fields) (*offer, error) {
	names := slices.Sorted(maps.Keys(all))
	out := &offer{way: way}
	ask := plan.Ask{Fits: of.Refuses, Step: max(of.Step(), 1)}
	refused, has, list := of.Func()+"() needs all samples", names, ""
	if way != nil {
		ask.AllBut, refused, list = way.AllBut, "", strings.Join(way.Columns(), ", ")
		for _, label := range way.Labels {
			ask.Tags = append(ask.Tags, queryable.TagKey(label))
		}
		for _, column := range way.Columns() {
			some, err := p.measurements(ctx, read, column)
			if err != nil {
				return nil, err
			}
			has = model.InBoth(has, slices.Sorted(maps.Keys(some)))
		}
	}
	byField := read.byField()
	for _, name := range names {
		if way != nil {
			of := []string{""}
			if byField {
				of = all[name]
			}
			ask.Columns = ask.Columns[:0:0]
			for _, field := range of {
				for _, column := range way.Columns() {
					ask.Columns = append(ask.Columns, plan.Column{Function: column, Field: field})
				}
			}
		}
		ask.Measurement, ask.Refused = name, refused
		if refused == "" && !slices.Contains(has, name) && slices.ContainsFunc(read.targets, func(t plan.Target) bool { return keeps(&t, ask.Columns) }) {
			ask.Refused = "it has no " + list + " of these samples, which may be booleans"
		}
		segments, unused := p.ask(read, &ask)
		out.segments, out.unused = append(out.segments, segments), append(out.unused, unused)
		for i := range segments {
			if r := segments[i].Intersect(read.times()); !r.Empty() {
				out.covered += float64(r.Max) - float64(r.Min) + 1
			}
		}
	}
	return out, nil
}

// keeps reports whether a target has all of some columns.
func keeps(t *plan.Target, columns []plan.Column) bool {
	return !slices.ContainsFunc(columns, func(c plan.Column) bool { return !t.Has(c) })
}

// best returns the first offer of those that cover most. What is not covered has the reasons of
// the last, which asks for least.
func (p *Policy) best(ctx context.Context, of *window.Plan, read *reads, all fields) (best *offer, err error) {
	ways := of.Ways()
	if len(ways) == 0 {
		return p.offer(ctx, of, read, nil, all)
	}
	for i := range ways {
		o, err := p.offer(ctx, of, read, &ways[i], all)
		if err != nil {
			return nil, err
		}
		if best == nil || o.covered > best.covered {
			best = o
		}
		best.unused = o.unused
	}
	return best, nil
}

// choose returns what is read of measurements of a policy in place of samples, in which way, and
// the times of the samples that are read. found has the series with samples.
func (p *Policy) choose(ctx context.Context, of *window.Plan, read *reads, found *queryable.Found) (way *window.Way, choices map[string]*choice, samples window.Span, err error) {
	every := window.Span{From: read.mint, To: read.maxt + 1}
	all, err := p.measurements(ctx, read)
	if err != nil {
		return nil, nil, every, err
	}
	known := ""
	for i := range found.Len() {
		switch name := found.Measurement(i); {
		case all[name] != nil:
			all.add(name, found.Field(i))
		case name != known:
			samples, known = every, name // it is new, or not taken
		}
	}
	best, err := p.best(ctx, of, read, all)
	if err != nil {
		return nil, nil, every, err
	}
	var last *choice
	for k, name := range slices.Sorted(maps.Keys(all)) {
		p.noteUnused(read, best.unused[k])
		segments := best.segments[k]
		if len(segments) == 0 {
			samples = every
			continue
		}
		if last == nil || !slices.EqualFunc(last.segments, segments, same) {
			whole, spans := time.Duration(1), make([]window.Span, 0, len(segments))
			for i := range segments {
				whole = window.Whole(whole, segments[i].Every())
				spans = append(spans, spanOf(&segments[i]))
			}
			last = &choice{segments: segments, every: whole}
			if last.schedule, err = of.Schedule(best.way, whole, spans, p.Charge); err != nil {
				return nil, nil, every, err
			}
			p.noteUsed(read, last, best.way)
		}
		samples = samples.Union(last.schedule.Samples)
		if !last.schedule.Windows.Empty() {
			if choices == nil {
				choices = map[string]*choice{}
			}
			choices[name] = last
		}
	}
	return best.way, choices, samples, nil
}

func same(a, b plan.Segment) bool {
	return a.Policy == b.Policy && a.Windows == b.Windows && a.TimeRange == b.TimeRange
}

// noteUsed notes which windows are read in which way.
func (p *Policy) noteUsed(of *reads, c *choice, way *window.Way) {
	estimates := ""
	if way.Sketches() {
		estimates = fmt.Sprintf("; quantiles are estimates within %g %%", 100*quantiles.Error)
	}
	for _, s := range c.segments {
		s.TimeRange = s.Intersect(model.TimeRange{Min: nanoseconds(c.schedule.Windows.From), Max: nanoseconds(c.schedule.Windows.To) - 1})
		if !s.Empty() {
			p.Notes.Add(fmt.Errorf("%w: %s%s", annotations.PromQLInfo, s.Note("samples", of.policy), estimates))
		}
	}
}
