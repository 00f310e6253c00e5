package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/rows"
)

// maxReasons bounds how many different reasons are kept.
const maxReasons = 20

// Refusals collects rows that cannot be stored. It may be used by many goroutines.
type Refusals struct {
	mu struct {
		sync.Mutex
		w       io.Writer // nil: rows are only counted
		reasons map[string]int64
		order   []string
		values  int64
		err     error
	}
}

// NewRefusals returns a Refusals that writes the rows to w as line protocol, each time
// below headers, as transfer.Refused takes it. w may be nil.
func NewRefusals(w io.Writer) *Refusals {
	r := &Refusals{}
	r.mu.reasons = map[string]int64{}
	r.mu.w = w
	return r
}

// Reason is why values were refused.
type Reason struct {
	Text   string
	Values int64
}

// Reasons returns the first reasons in the order in which they came, and the number of
// all values.
func (r *Refusals) Reasons() (out []Reason, values int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.mu.order {
		out = append(out, Reason{text, r.mu.reasons[text]})
	}
	return out, r.mu.values
}

// Sync makes durable what was written, where the writer can. It returns the first error of
// all writes.
func (r *Refusals) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.mu.w.(interface{ Sync() error }); ok && r.mu.err == nil {
		r.mu.err = f.Sync()
	}
	return r.mu.err
}

// Write takes lines below their headers. It is the io.Writer of transfer.ImportOptions.
func (r *Refusals) Write(lines []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.w == nil {
		return len(lines), nil
	}
	return r.mu.w.Write(lines)
}

// Add takes rows, which are valid during the call. Each reason is
// reported once for a measurement and a field.
func (r *Refusals) Add(database, policy, reason string, run *rows.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := values(run)
	r.mu.values += n
	if _, known := r.mu.reasons[reason]; known || len(r.mu.order) < maxReasons {
		if !known {
			r.mu.order = append(r.mu.order, reason)
		}
		r.mu.reasons[reason] += n
	}
	if r.mu.w == nil || r.mu.err != nil {
		return
	}
	text, err := textOf(database, policy, reason, run)
	if err == nil {
		_, err = r.mu.w.Write(text)
	}
	r.mu.err = err
}

// textOf returns rows as line protocol. Rows whose names it cannot have become comments: as
// lines they could be read as other points.
func textOf(database, policy, reason string, run *rows.Run) ([]byte, error) {
	if writable(run) {
		lines, err := rows.Lines(context.Background(), &one{run: run}, database, policy)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(lines)
	}
	text, err := rows.Header(database, policy)
	series := wire.AppendSeries(nil, run.Key)
	var prefixes []string
	for _, f := range run.Fields {
		prefixes = append(prefixes, wire.FieldPrefix(f.Key))
	}
	for row, at := range run.Times {
		if line := wire.AppendRow(nil, series, prefixes, run.Cols, row, at); len(line) > 0 {
			text = fmt.Appendf(text, "# %q: %q\n", reason, bytes.TrimSpace(line))
		}
	}
	return text, err
}

// writable reports whether line protocol can have the names of a run.
func writable(run *rows.Run) bool {
	measurement, tags := model.ParseSeriesKey(run.Key, nil)
	if model.Unstorable(measurement, tags) != "" || string(model.AppendSeriesKey(nil, measurement, tags)) != run.Key {
		return false
	}
	return !slices.ContainsFunc(run.Fields, func(f column.Field) bool { return model.UnstorableField(f.Key) != "" })
}

// values returns the number of values in a run.
func values(run *rows.Run) (n int64) {
	for i := range run.Cols {
		n += countValues(&run.Cols[i], run.Len())
	}
	return n
}

// countValues returns the number of values in a vector of n rows.
func countValues(v *column.Vector, n int) int64 {
	if v.Valid == nil {
		return int64(n)
	}
	return int64(v.Valid.Count(n))
}

// one is a reader of one run.
type one struct{ run *rows.Run }

func (o *one) Next(context.Context) (*rows.Run, error) {
	run := o.run
	if run == nil {
		return nil, io.EOF
	}
	o.run = nil
	return run, nil
}

func (o *one) Close() error { return nil }
