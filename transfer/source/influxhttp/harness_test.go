package influxhttp

import (
	"cmp"
	"context"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
)

const hour = int64(time.Hour)

// someRows are rows of two measurements in several hours.
func someRows() (rows []fakeRow) {
	for i := range int64(40) {
		rows = append(rows, fakeRow{"m", []string{"", "a", "b"}[i%3], (400_000*3600 + i*600) * 1e9, 1<<53 + i})
	}
	return append(rows, fakeRow{"n", "a", 5, -1}, fakeRow{"n", "a", 400_001 * hour, 0}, fakeRow{"n", "b", 1_000_000_000*1e9 + 7, 1})
}

// pullOptions say how a source is moved.
type pullOptions struct {
	Options
	journal        *journal.Journal
	refused        *mover.Refused // nil: one without a file
	workers, batch int
}

// pull is a source that was moved.
type pull struct {
	*Source
	stats   mover.Stats
	refused *mover.Refused
	move    func(ctx context.Context, from mover.Source) (int64, error)
}

// failed returns how many lines were refused.
func (p *pull) failed() int64 { return p.refused.Lines(p.stats.EarlierRefused.Count) }

// pulled moves everything.
func pulled(t *testing.T, f *fake, to *target, opt pullOptions) (*pull, error) {
	t.Helper()
	s := f.connect()
	c, err := s.Catalog(t.Context(), &opt.Filter)
	if err != nil {
		return nil, err
	}
	return pulledTo(t, s, c, to.client(), opt)
}

func pulledTo(t *testing.T, s *Server, c *Catalog, to *exchange.Client, opt pullOptions) (*pull, error) {
	t.Helper()
	if opt.Patience == 0 {
		opt.Patience = 2 * time.Second
	}
	if opt.refused == nil {
		var err error
		if opt.refused, err = mover.OpenRefused("", false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opt.refused.Close() })
	}
	opt.Journal = opt.journal != nil
	p := &pull{Source: New(s, to, c, opt.Options), refused: opt.refused}
	sink := server.New(to, server.Options{BatchBytes: opt.batch})
	p.move = func(ctx context.Context, from mover.Source) (int64, error) {
		st, err := mover.Run(ctx, from, sink, mover.Options{Filter: opt.Filter, Journal: opt.journal, Failed: opt.refused, Workers: cmp.Or(opt.workers, 2), Now: s.Now})
		p.stats.Add(st)
		p.stats.Share += st.Share
		return p.stats.Written, err
	}
	_, err := p.move(t.Context(), p.Source)
	return p, err
}

// follow follows with short rounds, and returns when it had all.
func (p *pull) follow(t *testing.T, eachRound ...func()) (upTo time.Time, err error) {
	err = p.Follow(t.Context(), FollowOptions{Every: 5 * time.Millisecond, Idle: 300 * time.Millisecond, UpTo: func(at time.Time) {
		upTo = at
		for _, f := range eachRound {
			f()
		}
	}}, p.move)
	return upTo, err
}
