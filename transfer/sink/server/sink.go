// Package server is a mover.Sink that sends rows to a running server, by line protocol
// (transfer.Import), one part after the other.
package server

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
)

// Sink sends to the server of a client.
type Sink struct {
	client    *exchange.Client
	requests  transfer.ImportOptions // their BatchBytes and Workers
	databases []*meta.Database
	kept      []string // policies that were there
}

// New returns a Sink that sends requests as an import does.
func New(client *exchange.Client, requests transfer.ImportOptions) *Sink {
	return &Sink{client: client, requests: requests}
}

// Create implements mover.Sink.
func (s *Sink) Create(ctx context.Context, m *mover.Move, databases []*meta.Database) (err error) {
	s.databases = databases
	s.kept, err = s.client.Create(ctx, &meta.Data{Databases: databases}, &exchange.Filter{}, "", "")
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
			} else if floor := oldest(rp, m.Now()); p.Times.Min < floor {
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
	text, err := rows.Lines(ctx, t.Reader(r), p.Database, p.Policy)
	if err != nil {
		return nil, err
	}
	opt := s.requests
	opt.Failed = t.Move().Failed()
	opt.Progress = func(now transfer.ImportStats) { t.Wrote(now.Written) }
	stats, err := transfer.Import(ctx, s.client, text, opt)
	t.Wrote(stats.Written)
	t.Refused(journal.Refused{Count: stats.Failed, Reasons: stats.Errors})
	return nil, err
}

// Count implements mover.Sink.
func (s *Sink) Count(ctx context.Context, database, policy string, times model.TimeRange, wanted func(measurement string) bool) (compare.Totals, error) {
	return compare.Ask(ctx, s.client, database, policy, times, wanted)
}
