package mover

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
)

// Tally counts the rows of a part for the stats of its move.
type Tally struct {
	m       *Move
	part    *Part
	totals  compare.Totals
	refused journal.Refused
	earlier journal.Refused // of a part that the journal has
	written int64           // points that a server has stored
	reasons []Reason        // that the stats do not have: the part may be moved once more

	key          string // of the latest run
	measurement  *compare.Measurement
	all          int64 // rows
	rows, values int64 // that the stats do not have
	shown        int64 // values, about, that they have
}

// Move returns the move that the part belongs to.
func (t *Tally) Move() *Move { return t.m }

// Wanted reports whether the part has rows of a measurement.
func (t *Tally) Wanted(measurement string) bool { return t.totals[t.name(measurement)] != nil }

// Empty reports whether the part has no rows.
func (t *Tally) Empty() bool { return len(t.totals) == 0 }

func (t *Tally) name(measurement string) compare.Name {
	return compare.Name{Database: t.part.Database, Policy: t.part.Policy, Measurement: measurement}
}

// shownValues is how many values are read between two looks at the progress.
const shownValues = 1 << 16

// of returns the totals of the measurement of a series.
func (t *Tally) of(key string) *compare.Measurement {
	if t.measurement == nil || key != t.key {
		t.key, t.measurement = key, t.totals.Of(t.name(model.SeriesMeasurement(key)))
	}
	return t.measurement
}

// Add counts rows of a series that are stored.
func (t *Tally) Add(key string, fields []column.Field, r *column.Rows) {
	t.of(key).Add(fields, r)
	n := int64(len(r.Times))
	t.all, t.rows = t.all+n, t.rows+n
	if t.values += int64(len(r.Times) * len(fields)); t.values >= shownValues {
		t.show()
	}
}

// show adds to the stats what they do not have.
func (t *Tally) show() {
	t.m.Change(func(s *Stats) {
		s.Rows, s.Values = s.Rows+t.rows, s.Values+t.values
	})
	t.shown += t.values
	t.rows, t.values = 0, 0
}

// Series counts a series that has rows, by its id.
func (t *Tally) Series(key string, id model.SeriesID) {
	m := t.of(key)
	if m.Set == nil {
		m.Set = roaring.New()
	}
	if m.Set.CheckedAdd(uint32(id)) {
		m.Series++
	}
}

// Sets counts series that have rows, by measurement.
func (t *Tally) Sets(sets map[string]*roaring.Bitmap) {
	for measurement, set := range sets {
		m := t.totals.Of(t.name(measurement))
		m.Set, m.Series = set, int64(set.GetCardinality())
	}
}

// Wrote counts points of the part that a server has stored.
func (t *Tally) Wrote(points int64) {
	t.m.Change(func(s *Stats) {
		t.written += points
		s.Written += points
	})
}

// undo takes back what was counted of a part that is moved once more.
func (t *Tally) undo() {
	t.m.Change(func(s *Stats) {
		s.Written, s.Refused = s.Written-t.written, s.Refused-t.refused.Count
		t.written, t.reasons, t.refused = 0, nil, journal.Refused{}
	})
}

// close gives the stats the reasons of the part.
func (t *Tally) close() {
	t.m.Change(func(s *Stats) { s.Add(&Stats{Reasons: t.reasons}) })
}

// Queried counts a statement of the source, which a server may refuse.
func (t *Tally) Queried(statement string, refusal error) {
	t.m.Change(func(s *Stats) {
		if s.Statements++; refusal != nil {
			s.FailedStatements++
			t.reasons = refuse(t.reasons, fmt.Sprintf("%s: %v", statement, refusal), 0)
		}
	})
}

// Refuse keeps and counts the values of rows that are not stored.
func (t *Tally) Refuse(reason string, run *rows.Run) {
	n := values(run)
	if n == 0 {
		return
	}
	t.Refused(reason, n)
	if t.Keeps() {
		t.m.opt.Failed.keepRun(t.part.Database, t.part.Policy, reason, run)
	}
}

// Refused counts what is not stored: values, or points of a server.
func (t *Tally) Refused(reason string, count int64) {
	t.m.Change(func(s *Stats) {
		t.refused.Add(journal.Refused{Count: count, Reasons: []string{reason}})
		t.reasons = refuse(t.reasons, reason, count)
		s.Refused += count
	})
}

// Keeps reports whether refused rows are kept.
func (t *Tally) Keeps() bool { return t.m.opt.Failed != nil }

// Keep keeps the text of a row that is not stored, below a heading. A move that loses it ends.
func (t *Tally) Keep(heading, row []byte) error {
	if !t.Keeps() {
		return nil
	}
	return t.m.opt.Failed.Keep(heading, row)
}

// again counts the rows of a part that an earlier move has stored.
func (t *Tally) again(ctx context.Context, r rows.Reader) error {
	r = t.Reader(r)
	for {
		if _, err := r.Next(ctx); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	t.m.Change(func(s *Stats) { s.Known += t.all - t.earlier.Count })
	return nil
}

// Reader returns a reader of r that counts the rows and their series.
func (t *Tally) Reader(r rows.Reader) rows.Reader { return &counted{r, t} }

type counted struct {
	rows.Reader
	t *Tally
}

// Next implements rows.Reader.
func (c *counted) Next(ctx context.Context) (*rows.Run, error) {
	run, err := c.Reader.Next(ctx)
	if err != nil {
		return nil, err
	}
	first := c.t.measurement == nil || run.Key != c.t.key
	c.t.Add(run.Key, run.Fields, &run.Rows)
	if first && c.t.m.first(c.t.part, run.Key) {
		c.t.measurement.Series++
	}
	return run, nil
}

// first reports whether a series of a part is one that the move has not met.
func (m *Move) first(p *Part, key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.seen.add(p.Database, p.Policy, key)
}
