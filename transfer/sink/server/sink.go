// Package server is a mover.Sink that sends rows to a running server, as line protocol or as
// the lines that the source has. Rows are sent in batches by several requests at a time. If
// the server refuses some lines of a batch, the sink sends it again by halves until it has
// found them. It sends for a minute to a server that is away or has a problem of its own.
package server

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/mover"
)

// Sink sends to the server of a client.
type Sink struct {
	client    *exchange.Client
	opt       Options
	databases []*meta.Database
	kept      []string // policies that were there

	mu struct {
		sync.Mutex
		made map[string]int // policies that rows needed, and how often batches have asked for them since
	}
}

// Options say how rows are sent. The zero value works.
type Options struct {
	BatchBytes int // of a request; default 1 MiB
	Workers    int // requests at a time; default 2. With 1, of two lines of a point the later one wins.
}

// New returns a Sink.
func New(client *exchange.Client, opt Options) *Sink {
	if opt.BatchBytes <= 0 {
		opt.BatchBytes = 1 << 20
	}
	if opt.Workers <= 0 {
		opt.Workers = 2
	}
	s := &Sink{client: client, opt: opt}
	s.mu.made = map[string]int{}
	return s
}

// Create implements mover.Sink.
func (s *Sink) Create(ctx context.Context, m *mover.Move, databases []*meta.Database) (err error) {
	s.databases = databases
	_, s.kept, err = s.client.Create(ctx, &meta.Data{Databases: databases}, &exchange.Filter{}, "", "")
	for _, name := range s.kept {
		m.Note("retention policy " + name + " is there already and stays as it is")
	}
	return err
}

// Define implements mover.Sink.
func (s *Sink) Define(ctx context.Context, d *exchange.Definitions) (exchange.Defined, error) {
	if len(d.Users)+len(d.Queries)+len(d.Downsamples)+len(d.Subscriptions)+len(d.Limits) == 0 {
		return exchange.Defined{}, nil
	}
	return s.client.Define(ctx, d)
}

// Parts implements mover.Sink. A part that is finished needs a policy that was there.
func (s *Sink) Parts(_ context.Context, m *mover.Move, parts iter.Seq2[*mover.Part, error]) iter.Seq2[*mover.Part, error] {
	return func(yield func(*mover.Part, error) bool) {
		for from, err := range parts {
			if err != nil {
				yield(nil, err)
				return
			}
			p := *from
			p.Database, p.Times = m.Target(p.Database), p.Times.Intersect(m.Filter().Times())
			rp, at := s.policy(&p), p.Database+"."+p.Policy
			if rp != nil && m.Finished(p.Name) {
				if !slices.Contains(s.kept, at) {
					yield(nil, fmt.Errorf("%w: the server did not have %s", mover.ErrLost, at))
					return
				}
			} else if floor := oldest(rp, m.Now()); p.Lines == nil && p.Times.Min < floor { // text has no times here
				p.Times.Min = floor
				m.Note(p.Name + " is left out as far as it is older than the retention policy keeps points")
				if p.Times.Empty() {
					m.Change(func(s *mover.Stats) { s.Expired++ })
					continue
				}
			}
			if !yield(&p, nil) {
				return
			}
		}
	}
}

// policy returns the policy of a part as the source has it, or nil.
func (s *Sink) policy(p *mover.Part) *meta.RetentionPolicy {
	for _, d := range s.databases {
		if d.Name == p.Database {
			return d.RetentionPolicy(p.Policy)
		}
	}
	return nil
}

// oldest returns the time before which a policy keeps nothing.
func oldest(rp *meta.RetentionPolicy, now time.Time) int64 {
	if rp != nil && rp.Duration > 0 {
		return now.UnixNano() - int64(rp.Duration)
	}
	return model.MinTime
}

// Put implements mover.Sink.
func (s *Sink) Put(ctx context.Context, p *mover.Part, r rows.Reader, t *mover.Tally) (compare.Totals, error) {
	return nil, s.send(ctx, p, t, func(to *lines) error { return to.runs(t.Reader(r)) })
}

// Count implements mover.Sink.
func (s *Sink) Count(ctx context.Context, database, policy string, times model.TimeRange, wanted func(measurement string) bool) (compare.Totals, error) {
	return compare.Ask(ctx, s.client, database, policy, times, wanted)
}
