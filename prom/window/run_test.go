package window

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/internal/testkit/testseed"
)

// Len implements Reader.
func (m memory) Len() int { return len(m) }

// Labels implements Reader.
func (m memory) Labels(i int) labels.Labels { return m[i].labels }

// Order implements Reader.
func (m memory) Order(order []int32) error {
	old := slices.Clone(m)
	for i, from := range order {
		m[i] = old[from]
	}
	return nil
}

// Samples implements Reader.
func (m memory) Samples(i int) ([]int64, []float64, error) { return m[i].t, m[i].v, nil }

// answer is a result as text: its series in their order, its values to the last bit.
func answerOf(g Grid, names []labels.Labels, steps [][]float64) string {
	var out strings.Builder
	for i, name := range names {
		fmt.Fprint(&out, name)
		for k, v := range steps[i] {
			switch {
			case IsAbsent(v):
			case v != v:
				fmt.Fprintf(&out, " NaN@%d", g.At(k))
			default:
				fmt.Fprintf(&out, " %x@%d", v, g.At(k))
			}
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// engineAnswer evaluates a query with Prometheus' engine.
func engineAnswer(t *testing.T, m memory, query string, q *Query, g Grid) (answer, notes string) {
	t.Helper()
	return answerFrom(t, engine(), m, query, q, g, nil)
}

// answerFrom evaluates a query with an engine over what it reads.
func answerFrom(t *testing.T, engine *promql.Engine, in storage.Queryable, query string, q *Query, g Grid, more func() annotations.Annotations) (answer, notes string) {
	t.Helper()
	opts := promql.NewPrometheusQueryOpts(false, q.Lookback)
	var pq promql.Query
	var err error
	if q.Step == 0 {
		pq, err = engine.NewInstantQuery(t.Context(), in, opts, query, q.Start)
	} else {
		pq, err = engine.NewRangeQuery(t.Context(), in, opts, query, q.Start, q.End, q.Step)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer pq.Close()
	res := pq.Exec(t.Context())
	if res.Err != nil {
		return "error: " + res.Err.Error(), ""
	}
	var names []labels.Labels
	var steps [][]float64
	switch v := res.Value.(type) {
	case promql.Vector:
		for _, s := range v {
			names, steps = append(names, s.Metric), append(steps, []float64{s.F})
		}
	case promql.Matrix:
		for _, s := range v {
			row := make([]float64, g.Steps())
			for i := range row {
				row[i] = Absent()
			}
			for _, p := range s.Floats {
				row[(p.T-g.Start)/g.Step] = p.F
			}
			names, steps = append(names, s.Metric), append(steps, row)
		}
	}
	found := res.Warnings
	if more != nil {
		found.Merge(more())
	}
	return answerOf(g, names, steps), notesOf(found, query)
}

func notesOf(notes annotations.Annotations, query string) string {
	warnings, infos := notes.AsStrings(query, 0, 0)
	slices.Sort(warnings)
	slices.Sort(infos)
	return fmt.Sprint(warnings, infos)
}

// runAnswer evaluates a query with a plan. It reports false if the engine must.
func runAnswer(t *testing.T, m memory, query string, q *Query, live int64) (answer, notes string, ok bool) {
	t.Helper()
	expr, err := engineParser().ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	plan := NewPlan(expr, q)
	if plan == nil || !fits(t, plan, m) {
		return "", "", false
	}
	first, last := plan.Reads()
	var in memory
	for _, s := range m { // with nothing but what the plan says it reads
		from, _ := slices.BinarySearch(s.t, first)
		to, _ := slices.BinarySearch(s.t, last+1)
		in = append(in, series{s.labels, s.t[from:to], s.v[from:to]})
	}
	charged := int64(0)
	env := Env{
		Charge: func(n int64) error { charged += n; return nil },
		Check:  func() error { return nil },
	}
	var names []labels.Labels
	var steps [][]float64
	found, err := plan.run(in, env, func(ls labels.Labels, row []float64) error {
		if len(row) != plan.Steps() {
			t.Fatalf("%s: %d steps, want %d", query, len(row), plan.Steps())
		}
		names, steps = append(names, ls), append(steps, slices.Clone(row))
		return nil
	}, live)
	if charged != 0 {
		t.Errorf("%s: %d bytes are still charged", query, charged)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	g, _ := q.Grid()
	return answerOf(g, names, steps), notesOf(found, query), true
}

func engineParser() parser.Parser {
	return parser.NewParser(parser.Options{EnableExperimentalFunctions: true})
}

// planned returns a random query that has a plan.
func planned(r *rand.Rand) string {
	inner := called(r)
	for r.IntN(4) == 0 {
		if all := aggregated(r, inner); r.IntN(3) == 0 && !strings.Contains(all, "topk") && !strings.Contains(all, "bottomk") {
			inner = all // topk has no order in a subquery
		}
		offset := []string{"", "", " offset 3s", " offset -2s"}[r.IntN(4)]
		step := []string{"1s", "1500ms", "7s", ""}[r.IntN(4)]
		inner = over(r, fmt.Sprintf("(%s)[%ds:%s]%s", inner, 1+r.IntN(20), step, offset))
	}
	return aggregated(r, inner)
}

// called returns a random selector, or a function of one.
func called(r *rand.Rand) string {
	selector := []string{"m", `m{g="1"}`, `{__name__=~"m|n_total"}`}[r.IntN(3)]
	modifier := []string{"", "", "", " offset 3s", " offset -2s", " @ 5.5", " @ start()", " @ end() offset 1s", " @ 0"}[r.IntN(9)]
	if r.IntN(3) == 0 {
		return selector + modifier
	}
	return over(r, fmt.Sprintf("%s[%ds]%s", selector, 1+r.IntN(20), modifier))
}

// over returns a random function over a window.
func over(r *rand.Rand, window string) string {
	switch f := kernelFunctions[1+r.IntN(len(kernelFunctions)-1)]; f {
	case "quantile_over_time":
		return fmt.Sprintf("%s((0.9), (%s))", f, window)
	case "predict_linear":
		return fmt.Sprintf("%s(%s, 60)", f, window)
	default:
		return fmt.Sprintf("%s((%s))", f, window)
	}
}

// aggregated returns a random aggregation of an expression, or the expression.
func aggregated(r *rand.Rand, inner string) string {
	op := []string{"sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk", "", ""}[r.IntN(13)]
	by := []string{"", "by (g)", "by (g, i)", "without (i)", "by (h, g)", "without (Z)", "by (__name__)"}[r.IntN(7)]
	switch op {
	case "":
		return "(" + inner + ")"
	case "quantile":
		return fmt.Sprintf("quantile %s (0.5, %s)", by, inner)
	case "topk", "bottomk":
		return fmt.Sprintf("%s %s (%d, %s)", op, by, 1+r.IntN(4), inner)
	}
	return fmt.Sprintf("%s %s (%s)", op, by, inner)
}

// TestRunEqualsPromQL compares plans with Prometheus' engine: series, their order,
// values to the last bit, notes.
func TestRunEqualsPromQL(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 4))
	ran, stages := 0, 0
	for round := range 1000 {
		m := metrics(r)
		q, g := times(r)
		query := planned(r)
		want, wantNotes := engineAnswer(t, m, query, q, g)
		got, notes, ok := runAnswer(t, m, query, q, []int64{0, liveBytes}[r.IntN(2)])
		if !ok {
			continue
		}
		if strings.Contains(query, ":") {
			stages++
		}
		if ran++; got != want || notes != wantNotes {
			t.Fatalf("seed %d round %d: %s over %+v step %v\ngot\n%s%s\nwant\n%s%s", seed, round, query, g, q.Step, got, notes, want, wantNotes)
		}
	}
	if ran < 700 || stages < 50 {
		t.Errorf("only %d plans ran, %d with a subquery", ran, stages)
	}
}

// TestNotPlanned lists expressions that the engine evaluates.
func TestNotPlanned(t *testing.T) {
	q := &Query{Start: time.UnixMilli(0), End: time.UnixMilli(10_000), Step: time.Second, Lookback: time.Hour}
	for _, query := range []string{
		"1", "m + 1", "-m", "absent(m)", "rate((m + 1)[5m:1m])", "rate(m[5m:1m] @ 7)", "rate((m @ 7)[5m:1m])", "rate(m[5m:])", "sum(m > 1)", "topk(0, m)", "topk(NaN, m)", "quantile(2, m)",
		"quantile_over_time(-1, m[5m])", "topk(scalar(m), m)", "predict_linear(m[5m] @ 1, 5)", "count_values(\"x\", m)",
		"timestamp(m)", "absent_over_time(m[5m])", "m offset step()",
	} {
		expr, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true}).ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		if NewPlan(expr, q) != nil {
			t.Errorf("%s has a plan", query)
		}
	}
}

// metrics returns random series of two metrics.
func metrics(r *rand.Rand) (m memory) {
	for i := range r.IntN(8) {
		s := randomSeries(r, -20_000, 40_000)
		b := labels.NewBuilder(labels.FromStrings("__name__", "m", "g", fmt.Sprint(r.IntN(3)), "i", fmt.Sprint((i*5)%8)))
		if r.IntN(8) == 0 {
			b.Set("__name__", "n_total")
		}
		if r.IntN(4) == 0 {
			b.Set("Z", fmt.Sprint(r.IntN(2))) // sorts before __name__
		}
		if r.IntN(10) == 0 {
			b.Set("__unit__", fmt.Sprint(r.IntN(2)))
		}
		s.labels = b.Labels()
		m = append(m, s)
	}
	return m
}

// times returns a random time or range.
func times(r *rand.Rand) (*Query, Grid) {
	q := &Query{Start: time.UnixMilli(r.Int64N(20_000) - 12_000), Lookback: time.Duration(1+r.IntN(8000)) * time.Millisecond, Substep: 2 * time.Second}
	if q.End = q.Start; r.IntN(3) > 0 {
		q.Step = time.Duration(1+r.IntN(3000)) * time.Millisecond
		q.End = q.Start.Add(time.Duration(r.IntN(20))*q.Step + time.Duration(r.Int64N(q.Step.Milliseconds()))*time.Millisecond)
	}
	g, _ := q.Grid()
	return q, g
}

func fits(t *testing.T, p *Plan, m memory) bool {
	t.Helper()
	held := int64(0)
	ok, err := p.Fits(m, func(n int64) error { held += n; return nil })
	if err != nil || held != 0 {
		t.Fatal(err, held)
	}
	return ok
}

// TestRunMemory ends a run whose kernel needs too much memory.
func TestRunMemory(t *testing.T) {
	m := memory{{labels: labels.FromStrings("__name__", "m")}}
	for i := range 10_000 {
		m[0].t, m[0].v = append(m[0].t, int64(i)), append(m[0].v, 1)
	}
	for _, query := range []string{"rate(m[1s])", "sum(max_over_time(m[1s]))", "max_over_time(m[10s:1ms])"} {
		expr, err := engineParser().ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		short := errors.New("short")
		held := int64(0)
		plan := NewPlan(expr, &Query{Start: time.UnixMilli(0), End: time.UnixMilli(10_000), Step: time.Second, Substep: time.Second})
		_, err = plan.Run(m, Env{Check: func() error { return nil }, Charge: func(n int64) error {
			if held += n; held > 8*10_000 {
				return short
			}
			return nil
		}}, func(labels.Labels, []float64) error { return nil })
		if err != short || held != 0 {
			t.Errorf("%s: %v, %d bytes are still charged", query, err, held)
		}
	}
}

// TestRunChecks ends a run within a series whose windows are long.
func TestRunChecks(t *testing.T) {
	m := memory{{labels: labels.FromStrings("__name__", "m")}}
	for i := range 10_000 {
		m[0].t, m[0].v = append(m[0].t, int64(i)), append(m[0].v, 1)
	}
	for _, query := range []string{"sum(deriv(m[10s]))", "max_over_time(deriv(m[10s])[1s:1ms])", "deriv(m[10s:1ms])", "sum(deriv(count(m)[10s:1ms]))"} {
		expr, err := engineParser().ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		killed := errors.New("killed")
		checks := 0
		plan := NewPlan(expr, &Query{Start: time.UnixMilli(10_000), End: time.UnixMilli(11_000), Step: time.Millisecond, Lookback: time.Second, Substep: time.Second})
		_, err = plan.Run(m, Env{Charge: func(int64) error { return nil }, Check: func() error {
			if checks++; checks == 6 { // the first ones are those of the series
				return killed
			}
			return nil
		}}, func(labels.Labels, []float64) error { return nil })
		if err != killed || checks != 6 {
			t.Errorf("%s: %v after %d checks", query, err, checks)
		}
	}
}
