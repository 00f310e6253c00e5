package prometheus

import (
	"context"
	"fmt"
	"sync"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/prom/block"
	"tsdbd/transfer/mover"
)

// Options say where the samples go, and which.
type Options struct {
	Database, RetentionPolicy string
	Range                     model.TimeRange
	Match                     []block.Selector // of the series; none: all
	// Note is called with what is left out: damage, and the first reasons of refusals.
	Note func(text string)

	part int // series of a part; default partSeries
}

// Lost counts what does not come over because it cannot be read or sent.
type Lost struct {
	Refused int64 // samples that cannot be stored
	Damaged int64 // chunks that cannot be read
	Blocks  int64 // that cannot be read
}

// past is what both sources have.
type past struct {
	opt Options

	mu      sync.Mutex
	lost    Lost
	reasons map[string]bool // that Note was called with
}

// Catalog implements mover.Source. Prometheus has none.
func (p *past) Catalog(context.Context, *exchange.Filter) (*mover.Catalog, error) {
	return &mover.Catalog{}, nil
}

// Lost returns what was left out so far.
func (p *past) Lost() Lost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// refused counts and reports samples that cannot be stored.
func (p *past) refused(series string, samples int, reason string) {
	p.report(reason, fmt.Sprintf("refused: series %s: %s", series, reason), func(l *Lost) { l.Refused += int64(samples) })
}

// maxReasons is how many different reasons are reported.
const maxReasons = 20

// report counts what was left out, and reports each reason once.
func (p *past) report(reason, text string, count func(*Lost)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count(&p.lost)
	if p.reasons[reason] || len(p.reasons) == maxReasons {
		return
	}
	if p.reasons == nil {
		p.reasons = map[string]bool{}
	}
	p.reasons[reason] = true
	p.opt.Note(text)
}

// part returns a part whose rows open reads. The rows of a part that the journal has are
// counted again: what cannot be stored is found again, and the comparison is of all samples.
func (p *past) part(name string, open func(ctx context.Context) (rows.Reader, error)) *mover.Part {
	return &mover.Part{
		Name: name, Database: p.opt.Database, Policy: p.opt.RetentionPolicy, Times: p.opt.Range, Again: true,
		Open: func(ctx context.Context, _ model.TimeRange, _ mover.Refuse) (rows.Reader, error) { return open(ctx) },
	}
}
