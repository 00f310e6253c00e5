package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/rows"
)

// ErrLost is the error of Send when the server lacks what the journal has: it was emptied,
// or is another one at the same address. The journal is worth nothing then.
var ErrLost = errors.New("what an earlier import had finished is gone")

// Send loads a source into a server that runs. After an error the result says how far it
// came.
func Send(ctx context.Context, src *Source, c *transfer.Client, opt Options) (*Result, error) {
	s := newState(opt)
	src, err := src.choose(&opt.Filter)
	if err != nil {
		return s.result(), err
	}
	kept, err := c.Create(ctx, &meta.Data{Databases: src.Databases}, &transfer.Filter{}, opt.NewDatabase, "")
	if err != nil {
		return s.result(), err
	}
	for _, p := range src.Parts {
		if at := s.target(p.Database) + "." + p.Policy; s.finished(p.name()) && !slices.Contains(kept, at) {
			return s.result(), fmt.Errorf("%w: the server did not have %s", ErrLost, at)
		}
	}
	for _, name := range kept {
		s.note("retention policy " + name + " is there already and stays as it is")
	}
	defined, err := c.Define(ctx, s.definitions(src))
	if err != nil {
		return s.result(), fmt.Errorf("make users, continuous queries and subscriptions: %w", err)
	}
	s.change(func(r *Result) { r.Defined = defined })
	s.checkUsers(src, defined)
	s.shards = len(src.Parts)
	for _, p := range src.Parts {
		if !s.finished(p.name()) {
			s.expected += p.Values
		}
	}
	seen := hashes{}
	for _, p := range src.Parts {
		if err = s.send(ctx, p, src, c, &seen); err != nil {
			err = fmt.Errorf("%s: %w", p.name(), err)
			break
		}
	}
	if s.opt.Refusals != nil {
		err = errors.Join(err, s.opt.Refusals.Sync())
	}
	if err == nil {
		err = s.ask(ctx, c)
	}
	if err == nil {
		if limits := s.limits(src); len(limits.Limits) > 0 {
			_, err = c.Define(ctx, limits)
		}
	}
	return s.result(), err
}

// send sends the rows of a part.
func (s *state) send(ctx context.Context, p *Part, src *Source, c *transfer.Client, seen *hashes) error {
	if s.finished(p.name()) {
		s.skip(p.name())
		return nil
	}
	j := &job{database: s.target(p.Database), policy: p.Policy}
	times := p.Times.Intersect(s.opt.Filter.Times())
	if floor := s.floor(p, src); times.Min < floor {
		times.Min = floor
		s.note(fmt.Sprintf("%s is left out as far as it is older than the retention policy keeps points", p.name()))
		if times.Empty() {
			s.change(func(r *Result) { r.Expired++ })
			return s.finish(p.name(), j)
		}
	}
	r, err := p.Open(ctx, times, func(reason string, run *rows.Run) { s.refuse(j, reason, run) })
	if err != nil {
		return err
	}
	t := &counted{s: s, j: j, totals: compare.Totals{}}
	text, err := rows.Lines(ctx, &tee{r, t, seen}, t.j.database, p.Policy)
	if err == nil {
		var stats transfer.ImportStats
		var failed io.Writer
		if s.opt.Refusals != nil {
			failed = s.opt.Refusals
		}
		stats, err = transfer.Import(ctx, c, text, transfer.ImportOptions{Failed: failed})
		for _, e := range stats.Errors {
			s.note("the server refuses: " + e)
		}
		s.refused(j, journal.Refused{Count: stats.Failed, Reasons: stats.Errors})
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	s.progress(t.pending)
	s.change(func(r *Result) {
		r.Shards++
		r.Values += t.totals.Values()
		r.Source.Merge(t.totals)
	})
	return s.finish(p.name(), j)
}

// floor returns the time before which the policy of a part keeps nothing.
func (s *state) floor(p *Part, src *Source) int64 {
	for _, d := range src.Databases {
		if d.Name == p.Database {
			if rp := d.RetentionPolicy(p.Policy); rp != nil && rp.Duration > 0 {
				return s.opt.Now().UnixNano() - int64(rp.Duration)
			}
		}
	}
	return model.MinTime
}

// ask has the server count what was sent.
func (s *state) ask(ctx context.Context, c *transfer.Client) error {
	r := s.result()
	asked := map[[2]string]bool{}
	for _, name := range r.Source.Names() {
		if r.Earlier > 0 {
			r.Source[name].Series = -1 // some came before
		}
		at := [2]string{name.Database, name.Policy}
		if asked[at] {
			continue
		}
		asked[at] = true
		have, err := compare.Ask(ctx, c, name.Database, name.Policy, s.opt.Filter.Times(), func(measurement string) bool {
			return r.Source[compare.Name{Database: name.Database, Policy: name.Policy, Measurement: measurement}] != nil
		})
		if err != nil {
			return fmt.Errorf("compare: %w", err)
		}
		maps.Copy(r.Target, have)
	}
	return nil
}

// tee counts the rows of a reader.
type tee struct {
	rows.Reader
	t    *counted
	seen *hashes
}

// Next returns the next run.
func (t *tee) Next(ctx context.Context) (*rows.Run, error) {
	run, err := t.Reader.Next(ctx)
	if err != nil {
		return nil, err
	}
	first := run.Key != t.t.key
	t.t.add(run.Key, run.Fields, &run.Rows)
	if first && t.seen.add(t.t.j.database, t.t.j.policy, run.Key) {
		t.t.measurement.Series++
	}
	return run, nil
}
