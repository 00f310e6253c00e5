package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/prom/block"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/rows"
)

// Options say where the samples go, and which.
type Options struct {
	Database, RetentionPolicy string // an empty policy is the default one
	Range                     model.TimeRange
	Match                     []block.Selector // of the series; none: all
	Journal                   string           // its file; "": none
	// Import has BatchBytes, Workers and Failed of the requests.
	Import transfer.ImportOptions
	// Note is called with what is left out: damage, and the first reasons of refusals.
	Note     func(text string)
	Progress func(Result) // without Totals

	part int // series of a part; default partSeries
}

// Result is what was read and sent.
type Result struct {
	Samples int64 // read, of finished parts too
	Known   int64 // samples of parts that were finished before
	Stats   transfer.ImportStats
	Refused int64 // samples that cannot be stored, and were not sent
	Damaged int64 // chunks that cannot be read
	Lost    int64 // blocks that cannot be read
	Totals  compare.Totals
}

// Incomplete says that not all samples have come over. The import has gone on.
func (r *Result) Incomplete() error {
	if n := r.Refused + r.Stats.Failed; n > 0 || r.Damaged > 0 || r.Lost > 0 {
		return fmt.Errorf("%d samples were refused, %d chunks are damaged, and %d blocks are left out", n, r.Damaged, r.Lost)
	}
	return nil
}

// mover sends the parts of a source.
type mover struct {
	to      *transfer.Client
	opt     Options
	journal *journal.Journal
	reasons map[string]bool // that Note was called with
	totals  compare.Totals  // of the result at its end

	mu struct {
		sync.Mutex // requests report their progress while the source is read
		Result
	}
}

// add changes the result.
func (m *mover) add(f func(*Result)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.mu.Result)
}

// result returns the result so far, without Totals.
func (m *mover) result() Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.Result
}

// move makes the database, opens the journal, and has send send the parts of the source.
func move(ctx context.Context, to *transfer.Client, source string, opt Options, send func(m *mover) error) (Result, error) {
	if err := to.Query(ctx, "CREATE DATABASE "+influxql.QuoteIdent(opt.Database)); err != nil {
		return Result{}, fmt.Errorf("create database: %w", err)
	}
	if opt.RetentionPolicy == "" {
		var err error
		if opt.RetentionPolicy, err = defaultPolicy(ctx, to, opt.Database); err != nil {
			return Result{}, err
		}
	}
	opt.part = cmp.Or(opt.part, partSeries)
	m := &mover{to: to, opt: opt, reasons: map[string]bool{}}
	m.totals = compare.Totals{}
	if opt.Journal != "" {
		var match []string
		for _, s := range opt.Match {
			match = append(match, s.String())
		}
		what := fmt.Sprintf("%s to %s, %s.%s, from %d to %d, %s", source, to.URL, opt.Database, opt.RetentionPolicy, opt.Range.Min, opt.Range.Max, strings.Join(match, " or "))
		var err error
		if m.journal, err = journal.Open(opt.Journal, what); err != nil {
			return Result{}, err
		}
	}
	err := send(m)
	r := m.result()
	r.Totals = m.totals
	if m.journal == nil {
		return r, err
	}
	if err != nil {
		return r, errors.Join(err, m.journal.Close())
	}
	return r, m.journal.Remove()
}

// refused counts and reports samples that cannot be stored.
func (m *mover) refused(series string, samples int, reason string) {
	m.add(func(r *Result) { r.Refused += int64(samples) })
	m.report(reason, fmt.Sprintf("refused: series %s: %s", series, reason))
}

// maxReasons is how many different reasons are reported.
const maxReasons = 20

// report reports what was left out, each reason once.
func (m *mover) report(reason, text string) {
	if m.reasons[reason] || len(m.reasons) == maxReasons {
		return
	}
	m.reasons[reason] = true
	m.opt.Note(text)
}

// part sends the series that r yields, or only counts them if the journal has them.
func (m *mover) part(ctx context.Context, r rows.Reader, name string) error {
	counted := &counter{Reader: r, mover: m}
	// What cannot be read or stored is found again in a finished part, what the server has
	// refused is not.
	if m.journal != nil && m.journal.Done(name) {
		before := m.result().Samples
		for {
			if _, err := counted.Next(ctx); errors.Is(err, io.EOF) {
				refused := m.journal.Refused(name)
				m.add(func(r *Result) {
					r.Known += r.Samples - before - refused.Count
					r.Stats.Add(transfer.ImportStats{Failed: refused.Count, Errors: refused.Reasons})
				})
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	lines, err := rows.Lines(ctx, counted, m.opt.Database, m.opt.RetentionPolicy)
	if err != nil {
		return err
	}
	opt, before := m.opt.Import, m.result().Stats
	sent := func(s transfer.ImportStats) {
		m.add(func(r *Result) {
			r.Stats = before
			r.Stats.Add(s)
		})
	}
	opt.Progress = func(s transfer.ImportStats) {
		sent(s)
		m.opt.Progress(m.result())
	}
	stats, err := transfer.Import(ctx, m.to, lines, opt)
	sent(stats)
	if err != nil || m.journal == nil {
		return err
	}
	if f, ok := m.opt.Import.Failed.(interface{ Sync() error }); ok {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return m.journal.Finish(name, journal.Refused{Count: stats.Failed, Reasons: stats.Errors})
}

// counter counts the rows that a Reader yields.
type counter struct {
	rows.Reader
	mover *mover
	key   string
	of    *compare.Measurement
}

func (c *counter) Next(ctx context.Context) (*rows.Run, error) {
	run, err := c.Reader.Next(ctx)
	if err != nil {
		return nil, err
	}
	if run.Key != c.key || c.of == nil {
		c.key = run.Key
		c.of = c.mover.totals.Of(compare.Name{
			Database: c.mover.opt.Database, Policy: c.mover.opt.RetentionPolicy, Measurement: model.SeriesMeasurement(run.Key),
		})
		c.of.Series = -1 // a series may be in several blocks
	}
	c.of.Add(run.Fields, &run.Rows)
	c.mover.add(func(r *Result) { r.Samples += int64(run.Len()) })
	return run, nil
}
