package promjudge

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/engine"
	"tsdbd/prom/queryable"
	"tsdbd/query/admission"
	"tsdbd/store"
)

// layout is where a store has the samples of a dataset.
type layout string

const (
	cached    layout = "cached"    // all in memory
	mixed     layout = "mixed"     // the last third in memory, the others in a file each
	flushed   layout = "flushed"   // each third in a file
	compacted layout = "compacted" // in one file of each shard
)

// newStore returns a store that has a dataset.
func newStore(t *testing.T, data *Dataset, l layout) *store.Store {
	dir := t.TempDir()
	opt := store.Options{SyncInterval: time.Second, RetentionInterval: -1}
	if l == compacted {
		opt.CompactAfter = time.Nanosecond
	}
	var s *store.Store
	open := func() {
		t.Helper()
		var err error
		if s, err = store.Open(dir, opt); err != nil {
			t.Fatal(err)
		}
	}
	reopen := func() { // Close flushes
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		open()
	}
	open()
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Apply(t.Context(), meta.CreateDatabase{Name: "p"}); err != nil {
		t.Fatal(err)
	}
	const parts = 3
	for part := range parts {
		write(t, s, data, part, parts)
		if l == flushed || l == compacted || l == mixed && part < parts-1 {
			reopen()
		}
	}
	if l == compacted {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			done := true
			for _, sh := range s.Figures().Shards {
				done = done && sh.Files <= 2 // one of them has the index
			}
			if done {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the store does not compact: %+v", s.Figures().Shards)
			}
		}
	}
	return s
}

// write stores a part of the samples of each series, and some of the part before
// again. Each series has a sample in the first part, so that the store has the series in
// the order of the dataset, in which it gives them to an aggregation.
func write(t *testing.T, s *store.Store, data *Dataset, part, parts int) {
	table, err := s.Table("p")
	if err != nil {
		t.Fatal(err)
	}
	var batch point.Batch
	rows := &prom.Rows{Builder: point.NewBuilder(table, &batch)}
	for _, series := range data.Series {
		n := len(series.Samples)
		first, last := max(part*n/parts-2, 0), max((part+1)*n/parts, min(n, 1))
		put(t, rows, series.Labels, series.Samples[first:last])
	}
	if rows.Refused > 0 {
		t.Fatalf("%d samples are refused: %s", rows.Refused, rows.Reason)
	}
	if err := s.Write(context.Background(), "p", "", &batch); err != nil {
		t.Fatal(err)
	}
}

// put adds samples of a series to rows: most as remote write does, those of some
// metrics as the fields of another measurement.
func put(t *testing.T, rows *prom.Rows, ls labels.Labels, all []Sample) {
	var tags, own model.Tags
	ls.Range(func(l labels.Label) {
		tags = append(tags, model.Tag{Key: l.Name, Value: l.Value})
		if l.Name != labels.MetricName {
			own = append(own, model.Tag{Key: l.Name, Value: l.Value})
		}
	})
	field := func(measurement string, add func(s Sample), of func(s Sample) bool) {
		if err := rows.Builder.Series(measurement, own); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if of(s) {
				add(s)
				if err := rows.Builder.Row(prom.Nanoseconds(s.Time) + s.Time%1000); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	finite := func(s Sample) bool { return !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) }
	any := func(Sample) bool { return true }
	switch ls.Get(labels.MetricName) {
	case "queue_length": // the stale markers come by remote write
		field("queue", func(s Sample) { rows.Builder.Integer("length", int64(s.Value)) }, finite)
		rest := all[:0:0]
		for _, s := range all {
			if !finite(s) {
				rest = append(rest, s)
			}
		}
		all = rest
	case "cpu_seconds_total":
		field("cpu", func(s Sample) {
			rows.Builder.AnyFloat("seconds_total", s.Value)
			rows.Builder.String("note", fmt.Sprint(s.Value)) // which PromQL does not see
		}, any)
		return
	}
	var samples []prom.Sample
	var histograms []prom.Histogram
	for _, s := range all {
		if s.Int == nil && s.Float == nil {
			samples = append(samples, prom.Sample{Time: s.Time, Value: s.Value})
		} else {
			histograms = append(histograms, prom.Histogram{Time: s.Time, Int: s.Int, Float: s.Float})
		}
	}
	if err := rows.Add(tags, samples, histograms); err != nil {
		t.Fatal(err)
	}
}

// asker answers questions.
type asker struct {
	options parser.Options // of the syntax that it knows
	ask     func(ctx context.Context, q Question) *Answer
}

// stored is Prometheus' engine, with all syntax, over a store.
func stored(s *store.Store) asker {
	source, ng := &queryable.Source{Storage: s, DB: "p"}, promql.NewEngine(engineOptions(every))
	return asker{every, func(ctx context.Context, q Question) *Answer { return Ask(ctx, ng, source, q) }}
}

// served is what the server runs, with all syntax or that of a server that nobody has
// configured.
func served(s *store.Store, options parser.Options) asker {
	memory := admission.NewMemory(1 << 30)
	limits := admission.Limits{MemoryBytes: 1 << 30, QueryTimeout: time.Minute}
	e := engine.New(engine.Options{Storage: s, Queries: admission.NewQueries(limits, memory, slog.New(slog.DiscardHandler)), Memory: memory, Limits: engine.Limits{Experimental: options == every}})
	return asker{options, func(ctx context.Context, q Question) *Answer {
		req := &engine.Request{Access: engine.Access{DB: "p"}, Expr: q.Expr, Start: time.UnixMilli(q.Start), End: time.UnixMilli(q.End), Step: time.Duration(q.Step) * time.Millisecond}
		if q.Step == 0 {
			req.Start = req.End
		}
		var sink sink
		out, err := e.Run(ctx, req, &sink)
		res := &promql.Result{Err: err, Value: sink.value()}
		a := newAnswer(q.Expr, res)
		if out != nil {
			a.Notes = append(append(a.Notes, out.Warnings...), out.Infos...)
			slices.Sort(a.Notes)
		}
		return a
	}}
}

// sink keeps the value of a query.
type sink struct {
	kind   parser.ValueType
	vector promql.Vector
	matrix promql.Matrix
	scalar promql.Scalar
	text   promql.String
}

func (s *sink) Begin(t parser.ValueType) error { s.kind = t; return nil }
func (s *sink) Scalar(v promql.Scalar) error   { s.scalar = v; return nil }
func (s *sink) String(v promql.String) error   { s.text = v; return nil }

func (s *sink) Sample(v *promql.Sample) error {
	one := *v
	if v.H != nil {
		one.H = v.H.Copy()
	}
	s.vector = append(s.vector, one)
	return nil
}

func (s *sink) Series(v *promql.Series) error { // the points are not ours to keep
	one := promql.Series{Metric: v.Metric, Floats: slices.Clone(v.Floats)}
	for _, h := range v.Histograms {
		one.Histograms = append(one.Histograms, promql.HPoint{T: h.T, H: h.H.Copy()})
	}
	s.matrix = append(s.matrix, one)
	return nil
}

func (s *sink) value() parser.Value {
	switch s.kind {
	case parser.ValueTypeScalar:
		return s.scalar
	case parser.ValueTypeString:
		return s.text
	case parser.ValueTypeVector:
		return s.vector
	}
	return s.matrix
}
