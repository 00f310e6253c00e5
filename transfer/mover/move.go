package mover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
)

// Options say what is moved. The zero value is all.
type Options struct {
	Filter      exchange.Filter // its shards are those of the source
	NewDatabase string          // for the database of Filter
	// Journal, if set, has the parts that are finished, and gets those to come.
	Journal *journal.Journal
	// Failed, if set, gets the rows that the target refuses.
	Failed *Refused
	// Damaged, if set, reports whether damage of the source was found so far.
	Damaged func() bool
	// Note, if set, is called with what a user should know, also more than once: see Once.
	Note     func(text string)
	Progress func(Stats) // often, by one goroutine at a time
	Workers  int         // parts at a time; default 1
	Now      func() time.Time
}

// ErrLost is the error of a move whose target lacks what the journal has: it was emptied, or
// is another one at the same address. The journal is worth nothing then.
var ErrLost = errors.New("what an earlier import had finished is gone")

// Move is a move under way. Its methods are safe for concurrent use.
type Move struct {
	opt Options

	mu struct {
		sync.Mutex
		stats  Stats
		seen   hashes
		flawed bool // a part differs from its source
	}
}

// Run moves what a source has into a sink. After an error the stats say how far it came.
func Run(ctx context.Context, from Source, to Sink, opt Options) (*Stats, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	m := &Move{opt: opt}
	m.mu.seen = hashes{}
	m.mu.stats = Stats{EarlierFlaws: m.Finished(flaws), Source: compare.Totals{}, Target: compare.Totals{}}
	err := m.run(ctx, from, to)
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.mu.stats, err
}

func (m *Move) run(ctx context.Context, from Source, to Sink) error {
	c, err := from.Catalog(ctx, &m.opt.Filter)
	if err != nil {
		return err
	}
	if err := to.Create(ctx, m, m.renamed(c.Databases)); err != nil {
		return err
	}
	defined, err := to.Define(ctx, m.definitions(c))
	if err != nil {
		return fmt.Errorf("make users, continuous queries and subscriptions: %w", err)
	}
	m.Change(func(s *Stats) { s.Defined = defined })
	if n := len(c.Users) - defined.Users; n > 0 {
		m.Note(fmt.Sprintf("%d of %d users are there already and stay as they are", n, len(c.Users)))
	}
	err = m.parts(ctx, from, to)
	if m.opt.Failed != nil {
		err = errors.Join(err, m.opt.Failed.Sync())
	}
	if err == nil {
		err = m.compare(ctx, to)
	}
	if err != nil {
		return err
	}
	if limits := m.limits(c); len(limits.Limits) > 0 {
		_, err = to.Define(ctx, limits)
	}
	return err
}

// parts moves the parts. With one worker the source is asked for a part after the one
// before is moved.
func (m *Move) parts(ctx context.Context, from Source, to Sink) (err error) {
	workers, within := errgroup.WithContext(ctx)
	workers.SetLimit(max(m.opt.Workers, 1))
	for p, perr := range to.Parts(within, m, from.Parts(within, &m.opt.Filter)) {
		move := func() error {
			if err := within.Err(); err != nil {
				return err
			}
			err := m.part(within, p, to)
			if err == nil || p.Recover != nil {
				return err
			}
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if err = perr; err == nil && m.opt.Workers > 1 {
			workers.Go(move)
		} else if err == nil {
			err = move()
		}
		if err != nil || within.Err() != nil {
			break
		}
	}
	if werr := workers.Wait(); werr != nil {
		return werr
	}
	return err
}

// part moves a part, or skips it if the journal has it.
func (m *Move) part(ctx context.Context, p *Part, to Sink) (err error) {
	defer vfs.CatchFault(&err)()
	t := &Tally{m: m, part: p, totals: compare.Totals{}}
	defer t.close()
	done := m.Finished(p.Name)
	if done {
		t.earlier = m.opt.Journal.Refused(p.Name)
		m.Change(func(s *Stats) {
			s.Earlier++
			s.EarlierRefused.Add(t.earlier)
			if !p.Again {
				s.Passed += p.Values
				s.Share += p.Share
			}
		})
		if !p.Again {
			return nil
		}
	}
	if p.Lines != nil {
		return m.lines(ctx, p, to, t)
	}
	r, err := p.Open(ctx, p.Times, t.Refuse)
	if err != nil {
		return err
	}
	var have compare.Totals
	if done {
		err = t.again(ctx, r)
	} else {
		have, err = to.Put(ctx, p, r, t)
	}
	t.show()
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	exact := t.totals.Values()
	flawed := have != nil && len(missing(t.totals, have)) > 0
	m.Change(func(s *Stats) {
		s.Values += exact - t.shown
		s.Share += p.Share
		s.Source.Merge(t.totals)
		s.Target.Merge(have)
		if !done && !t.Empty() {
			s.Parts++
		}
	})
	if done {
		return nil
	}
	return m.finish(p, t, flawed)
}

// lines moves a part whose form is text.
func (m *Move) lines(ctx context.Context, p *Part, to Sink, t *Tally) error {
	s, ok := to.(LineSink)
	if !ok {
		return errors.New("lines of text can be sent only to a server")
	}
	if p.Halves != nil && (m.Finished(halvesOf+p.Name) || p.Halve()) {
		return m.halves(ctx, p, to)
	}
	for {
		err := s.PutLines(ctx, p, t)
		if err == nil {
			break
		}
		if p.Recover == nil {
			return err
		}
		then := p.Recover(ctx, err)
		halve := errors.Is(then, ErrHalve)
		if halve && p.Halves == nil {
			return err
		} else if then != nil && !halve {
			return then
		}
		t.undo()
		if !halve {
			continue
		}
		if m.opt.Journal != nil { // what cannot be answered as a whole is not asked for again
			if err := m.opt.Journal.Finish(halvesOf+p.Name, journal.Refused{}); err != nil {
				return err
			}
		}
		return m.halves(ctx, p, to)
	}
	m.Change(func(s *Stats) {
		s.Parts++
		s.Share += p.Share
	})
	if p.Settled != nil && !p.Settled() {
		return nil
	}
	return m.finish(p, t, false)
}

// halvesOf begins the name in the journal of a part that was too large.
const halvesOf = "halves of "

func (m *Move) halves(ctx context.Context, p *Part, to Sink) error {
	for _, half := range p.Halves() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := m.part(ctx, half, to); err != nil {
			return err
		}
	}
	return nil
}

// flaws is the entry of a journal with parts that are not all that the source has.
const flaws = "flaws"

// finish notes a part in the journal, with what was refused of it and after that is kept:
// the move that goes on does not send the part again.
func (m *Move) finish(p *Part, t *Tally, flawed bool) error {
	if m.opt.Journal == nil {
		return nil
	}
	if m.opt.Failed != nil {
		if err := m.opt.Failed.Sync(); err != nil {
			return fmt.Errorf("keep what was refused: %w", err)
		}
	}
	m.mu.Lock()
	m.mu.flawed = m.mu.flawed || flawed
	flawed = m.mu.flawed
	m.mu.Unlock()
	if flawed || m.opt.Damaged != nil && m.opt.Damaged() {
		if err := m.opt.Journal.Finish(flaws, journal.Refused{}); err != nil {
			return err
		}
	}
	return m.opt.Journal.Finish(p.Name, t.refused)
}

// compare has the sink count what was moved, as far as Put has not.
func (m *Move) compare(ctx context.Context, to Sink) error {
	m.mu.Lock()
	source, target, earlier := m.mu.stats.Source, maps.Clone(m.mu.stats.Target), m.mu.stats.Earlier > 0 && m.mu.stats.Known == 0
	m.mu.Unlock()
	type policy struct{ database, name string }
	asked := map[policy]bool{}
	for _, name := range source.Names() {
		at := policy{name.Database, name.Policy}
		if target[name] != nil || asked[at] {
			continue
		}
		asked[at] = true
		have, err := to.Count(ctx, name.Database, name.Policy, m.opt.Filter.Times(), func(measurement string) bool {
			return source[compare.Name{Database: name.Database, Policy: name.Policy, Measurement: measurement}] != nil
		})
		if err != nil {
			return fmt.Errorf("compare: %w", err)
		}
		m.Change(func(s *Stats) {
			if earlier {
				for _, of := range s.Source {
					of.Series = -1 // some came before
				}
			}
			maps.Copy(s.Target, have)
		})
	}
	return nil
}

// Note calls Options.Note.
func (m *Move) Note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opt.Note != nil {
		m.opt.Note(text)
	}
}

// Once returns a function for Options.Note that calls note once for each text, also over
// many moves. It is safe for concurrent use.
func Once(note func(text string)) func(text string) {
	var said sync.Map
	return func(text string) {
		if _, was := said.LoadOrStore(text, true); !was {
			note(text)
		}
	}
}

// Change changes the stats, and shows them.
func (m *Move) Change(f func(s *Stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.mu.stats)
	if m.opt.Progress != nil {
		now := m.mu.stats
		now.Source, now.Target = nil, nil
		m.opt.Progress(now)
	}
}

// Finished reports whether the journal has a part.
func (m *Move) Finished(name string) bool {
	return m.opt.Journal != nil && m.opt.Journal.Done(name)
}

// Filter returns what is moved.
func (m *Move) Filter() *exchange.Filter { return &m.opt.Filter }

// Now returns the present, by which rows expire.
func (m *Move) Now() time.Time { return m.opt.Now() }

// Target returns the name that a database of the source gets.
func (m *Move) Target(database string) string {
	if database == m.opt.Filter.Database && m.opt.NewDatabase != "" {
		return m.opt.NewDatabase
	}
	return database
}

// renamed returns databases by the names that they get.
func (m *Move) renamed(databases []*meta.Database) (out []*meta.Database) {
	for _, d := range databases {
		c := *d
		c.Name = m.Target(d.Name)
		out = append(out, &c)
	}
	return out
}
