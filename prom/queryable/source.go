package queryable

import (
	"errors"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/syntax"
)

// scale is a millisecond in the unit of storage.
const scale = int64(time.Millisecond)

var errClosed = errors.New("the querier is closed")

// Source is one retention policy as Prometheus sees it.
type Source struct {
	Storage scan.Storage
	DB, RP  string
	// Columns, if it is set, says that the policy is the target of a downsample, and which
	// functions are read: of a field F the fields FUNCTION_F. These are the samples then of
	// the metric that F has in the source. Their times are the starts of windows.
	Columns []string
	// Charge, if it is set, is called before memory is taken, with its bytes, and
	// with a negative number when it is given back. Its error ends the query. A charge
	// that is refused counts all the same, and is given back.
	Charge func(bytes int64) error
	// Read, if it is set, is called with the number of samples whenever samples were
	// read. Their own memory is used again, but a caller may keep what it makes of
	// them. Its error ends the query.
	Read func(samples int64) error
}

// Querier returns a reader of the times from mint to maxt, in milliseconds. The
// caller must Close it.
func (s *Source) Querier(mint, maxt int64) (storage.Querier, error) {
	times := rangeOf(mint, maxt)
	view, err := s.Storage.View(s.DB, s.RP, times)
	if err != nil {
		return nil, err
	}
	return &querier{view: view, times: times, columns: s.Columns, budget: budget{charge: s.Charge}, read: s.Read}, nil
}

// querier reads a view until it is closed.
type querier struct {
	view    scan.View // nil once closed
	times   model.TimeRange
	columns []string           // of Source
	regexes syntax.RegexBudget // of all selectors
	budget  budget
	read    func(samples int64) error
}

// Close releases the view and gives all memory back.
func (q *querier) Close() error {
	if q.view != nil {
		q.view.Release()
		q.view = nil
		q.budget.release(q.budget.held)
	}
	return nil
}

// shards returns the shards that overlap a range, the oldest first. Their lists are charged.
func (q *querier) shards(times model.TimeRange) []scan.Shard {
	var out []scan.Shard
	for _, sh := range q.view.Shards() {
		if sh.TimeRange().Overlaps(times) {
			out = append(out, sh.Charged(q.budget.take))
		}
	}
	return out
}

// warnings returns what damage has taken from the samples.
func (q *querier) warnings(times model.TimeRange) annotations.Annotations {
	var out annotations.Annotations
	for _, text := range scan.Notes(q.view, times) {
		out.Add(errors.New(text))
	}
	return out
}

// budget charges memory and knows what it holds.
type budget struct {
	charge func(bytes int64) error
	held   int64
}

// take charges bytes that are about to be taken. A negative number gives back. What is
// refused is held as well, until it is released.
func (b *budget) take(bytes int64) error {
	b.held += bytes
	if b.charge == nil {
		return nil
	}
	return b.charge(bytes)
}

func (b *budget) release(bytes int64) {
	if b.charge != nil && bytes > 0 {
		_ = b.charge(-bytes) // giving back cannot fail
	}
	b.held -= bytes
}

// rangeOf returns the nanoseconds of the milliseconds from mint to maxt.
func rangeOf(mint, maxt int64) model.TimeRange {
	const first, last = model.MinTime/scale - 1, model.MaxTime / scale // the millisecond rounds down
	if mint > last || maxt < first || mint > maxt {
		return model.TimeRange{Min: 0, Max: -1}
	}
	r := model.AllTime
	if mint > first {
		r.Min = mint * scale
	}
	if maxt < last {
		r.Max = maxt*scale + scale - 1
	}
	return r
}

// milliseconds rounds nanoseconds down.
func milliseconds(ns int64) int64 {
	ms := ns / scale
	if ns%scale < 0 {
		ms--
	}
	return ms
}
