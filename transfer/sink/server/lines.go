package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/influxdata/influxql"
	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/transfer/mover"
)

// lines sends the lines of a part in batches. The workers send while the source goes on.
type lines struct {
	ctx     context.Context // ends with the first error of a worker
	cancel  context.CancelCauseFunc
	sink    *Sink
	part    *mover.Part
	tally   *mover.Tally
	batch   batch
	workers errgroup.Group
}

// batch is lines that are sent together, or a part of them.
type batch struct {
	database, policy string
	body             []byte
	ends             []int       // offsets behind the lines
	from             []mover.Row // of each line, or none
}

// lines returns the lines from first to last.
func (b *batch) lines(first, last int) []byte {
	begin := 0
	if first > 0 {
		begin = b.ends[first-1]
	}
	return b.body[begin:b.ends[last-1]]
}

// PutLines implements mover.LineSink.
func (s *Sink) PutLines(ctx context.Context, p *mover.Part, t *mover.Tally) error {
	return s.send(ctx, p, t, func(to *lines) error { return p.Lines(to.ctx, to) })
}

// send sends what read passes on.
func (s *Sink) send(ctx context.Context, p *mover.Part, t *mover.Tally, read func(to *lines) error) error {
	l := &lines{sink: s, part: p, tally: t}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	defer l.cancel(nil)
	l.workers.SetLimit(s.opt.Workers)
	err := read(l)
	if err == nil {
		err = l.hand()
	}
	_ = l.workers.Wait() // the error is the cause of the end of l.ctx
	if cause := context.Cause(l.ctx); cause != nil {
		return cause
	}
	return err
}

// runs passes on what a reader has.
func (l *lines) runs(r rows.Reader) error {
	var text rows.LineWriter
	for {
		run, err := r.Next(l.ctx)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		text.Begin(run)
		for row := range run.Times {
			b := &l.batch
			b.database, b.policy = l.part.Database, l.part.Policy
			before := len(b.body)
			if b.body = text.AppendRow(b.body, row); len(b.body) == before {
				continue
			}
			if err := l.added(); err != nil {
				return err
			}
		}
	}
}

// Put implements mover.Lines.
func (l *lines) Put(line *mover.Line) error {
	b := &l.batch
	if len(b.ends) > 0 && (line.Database != b.database || line.Policy != b.policy) {
		if err := l.hand(); err != nil {
			return err
		}
	}
	b.database, b.policy = line.Database, line.Policy
	b.body = append(append(b.body, line.Text...), '\n')
	if line.From != nil {
		from := *line.From
		if from.Text = nil; l.tally.Keeps() {
			from.Text = bytes.Clone(line.From.Text)
		}
		b.from = append(b.from, from)
	}
	return l.added()
}

// added hands the batch on if the line that was added fills it.
func (l *lines) added() error {
	l.batch.ends = append(l.batch.ends, len(l.batch.body))
	if len(l.batch.body) < l.sink.opt.BatchBytes {
		return nil
	}
	return l.hand()
}

// hand gives the present batch to a worker.
func (l *lines) hand() error {
	if b := l.batch; len(b.ends) > 0 && l.ctx.Err() == nil {
		l.batch = batch{}
		l.workers.Go(func() error {
			refused, err := l.deliver(&b, 0, len(b.ends))
			if err != nil {
				l.cancel(&mover.TargetError{Err: fmt.Errorf("write to database %s: %w", b.database, err)})
				return nil
			}
			l.tally.Wrote(int64(len(b.ends) - refused))
			return nil
		})
	}
	return context.Cause(l.ctx)
}

// Query implements mover.Lines.
func (l *lines) Query(statement string) error {
	if err := l.hand(); err != nil {
		return err
	}
	_ = l.workers.Wait() // the error is the cause of the end of l.ctx
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	err := l.sink.client.Query(l.ctx, statement)
	var refusal *exchange.WriteError
	if err != nil && (l.ctx.Err() != nil || errors.As(err, &refusal) && refusal.Temporary()) {
		return &mover.TargetError{Err: fmt.Errorf("%s: %w", statement, err)}
	}
	l.tally.Queried(statement, err)
	return nil
}

// Refuse implements mover.Lines.
func (l *lines) Refuse(reason string, line *mover.Line) error {
	if line.From != nil {
		reason = fmt.Sprintf("%s:%d: %s", l.part.Name, line.From.Number, reason)
	}
	l.tally.Refused(reason, 1)
	return l.keep(line)
}

// keep keeps a line that is not stored, or the row that it comes from.
func (l *lines) keep(line *mover.Line) (err error) {
	if !l.tally.Keeps() {
		return nil
	}
	var heading []byte
	if line.From != nil {
		err = l.tally.Keep(line.From.Head, line.From.Text)
	} else if heading, err = rows.Header(line.Database, line.Policy); err == nil {
		err = l.tally.Keep(heading, line.Text)
	}
	if err != nil {
		err = &mover.TargetError{Err: fmt.Errorf("write failed lines: %w", err)}
		l.cancel(err)
	}
	return err
}

// deliver sends the lines from first to last of a batch until each is stored or refused, and
// returns the number of the refused ones. The text of a refusal names one kind of reason, and
// not all lines, so deliver sends the lines again by halves. What the server takes it has
// already; storing it again changes nothing. A server that says how many lines it dropped
// spares the search where it dropped all lines or none.
func (l *lines) deliver(b *batch, first, last int) (refused int, err error) {
	refusal, err := l.write(b, first, last)
	if err != nil || refusal == nil {
		return 0, err
	}
	switch n := last - first; {
	case refusal.Dropped == 0: // all points are stored, without a field "time"
		return 0, l.refused(b, first, first, refusal)
	case n == 1 || refusal.Dropped == int64(n):
		return n, l.refused(b, first, last, refusal)
	}
	middle := (first + last) / 2
	left, err := l.deliver(b, first, middle)
	if err != nil {
		return 0, err
	}
	right, err := l.deliver(b, middle, last)
	return left + right, err
}

// lineOfBody is what the server says about a line of VictoriaMetrics.
var lineOfBody = regexp.MustCompile(`^partial write: line \d+: (.*) dropped=\d+ for database: .*$`)

// refused counts and keeps the lines from first to last of a batch.
func (l *lines) refused(b *batch, first, last int, refusal *exchange.WriteError) error {
	reason := refusal.Message
	if len(b.from) > 0 {
		if l.part.Series {
			reason = lineOfBody.ReplaceAllString(reason, "$1")
		}
		where := fmt.Sprintf("%s:%d", l.part.Name, b.from[first].Number)
		if n := b.from[max(first, last-1)].Number; n != b.from[first].Number {
			where += fmt.Sprintf("-%d", n) // the server names one reason
		}
		reason = where + ": " + reason
	}
	l.tally.Refused(reason, int64(last-first))
	line := mover.Line{Database: b.database, Policy: b.policy}
	for i := first; i < last; i++ {
		if line.Text = bytes.TrimSuffix(b.lines(i, i+1), []byte{'\n'}); len(b.from) > 0 {
			line.From = &b.from[i]
		}
		if err := l.keep(&line); err != nil {
			return err
		}
	}
	return nil
}

// write sends the lines from first to last of a batch until the server takes or refuses them.
func (l *lines) write(b *batch, first, last int) (*exchange.WriteError, error) {
	for begin, wait := time.Now(), 100*time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := l.request(b, b.lines(first, last))
		var refusal *exchange.WriteError
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, &refusal) && ofLines(refusal):
			return refusal, nil
		case refusal != nil && ofPolicy(refusal) && b.policy != "" && (l.part.Lines == nil || b.policy != l.part.Policy):
			if err := l.sink.makePolicy(l.ctx, l.tally, b.database, b.policy); err != nil {
				return nil, err
			}
			continue
		case refusal != nil && !refusal.Temporary(), l.ctx.Err() != nil, time.Since(begin) > patience:
			return nil, err
		}
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
		}
	}
}

// patience is how long a server that has a problem of its own is tried.
const patience = time.Minute

// ofLines reports that lines were refused and the others stored.
func ofLines(e *exchange.WriteError) bool {
	return e.Status == http.StatusBadRequest && (strings.Contains(e.Message, "partial write") || strings.Contains(e.Message, "unable to parse"))
}

// ofPolicy reports that the database has no such retention policy.
func ofPolicy(e *exchange.WriteError) bool {
	return strings.Contains(e.Message, "retention policy not found")
}

// requestTime is how long a server has to take a request and to answer it.
const requestTime = 10 * time.Minute

var errUnanswered = fmt.Errorf("the server has not answered for %s", requestTime)

// request sends lines once.
func (l *lines) request(b *batch, body []byte) (err error) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, requestTime, errUnanswered)
	defer cancel()
	if l.part.Series {
		err = l.sink.client.WriteSeries(ctx, b.database, b.policy, body)
	} else {
		err = l.sink.client.Write(ctx, b.database, b.policy, l.part.Precision, body)
	}
	if err != nil && context.Cause(ctx) == errUnanswered {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	var refusal *exchange.WriteError
	if l.part.Series && errors.As(err, &refusal) {
		refusal.Dropped = -1 // the server counts samples
	}
	return err
}

// makePolicy makes a retention policy. That it is made and still lacking is an error, once all
// batches that were under way have met it, so that a batch does not ask forever.
func (s *Sink) makePolicy(ctx context.Context, t *mover.Tally, database, policy string) error {
	name := policy + " of " + database
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked, ok := s.mu.made[name]; ok {
		if s.mu.made[name]++; asked >= s.opt.Workers {
			return fmt.Errorf("retention policy %s was made and is not there", name)
		}
		return nil // by another worker, while this batch was under way
	}
	q := fmt.Sprintf("CREATE RETENTION POLICY %s ON %s DURATION INF REPLICATION 1", influxql.QuoteIdent(policy), influxql.QuoteIdent(database))
	if err := s.client.Query(ctx, q); err != nil {
		return fmt.Errorf("%s: %w", q, err)
	}
	s.mu.made[name] = 0
	t.Move().Note("made retention policy " + name + ", which keeps data forever: see ALTER RETENTION POLICY")
	return nil
}
