package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
)

// text is a Sink that prints what it gets.
type text struct{ strings.Builder }

func (s *text) Begin(t parser.ValueType) error { fmt.Fprintln(s, t); return nil }
func (s *text) Sample(v *promql.Sample) error  { fmt.Fprintln(s, v); return nil }
func (s *text) Series(v *promql.Series) error  { fmt.Fprintln(s, v); return nil }
func (s *text) Scalar(v promql.Scalar) error   { fmt.Fprintln(s, v); return nil }
func (s *text) String(v promql.String) error   { fmt.Fprintln(s, v); return nil }
func (s *text) run(e *Engine, req Request) error {
	out, err := e.Run(context.Background(), &req, s)
	if err == nil {
		fmt.Fprintln(s, out.Warnings, out.Infos)
	}
	return err
}

// testEngine returns an engine over points of line protocol, with times in seconds.
func testEngine(t testing.TB, points string, memory int64) *Engine {
	t.Helper()
	s := scantest.New()
	s.Create("p", "rp")
	s.Write(t, "p", "", "s", points)
	t.Cleanup(func() {
		if n := s.Views(); n != 0 {
			t.Errorf("%d views are not released", n)
		}
	})
	queries := admission.NewQueries(admission.Limits{MemoryBytes: memory}, nil, slog.New(slog.DiscardHandler))
	return New(Options{Storage: s, Queries: queries})
}

func testPoints() string {
	var b strings.Builder
	for i := range 40 {
		at := i * 15
		fmt.Fprintf(&b, "a,g=x,i=1 value=%d %d\na,g=y,i=2 value=%d %d\n", i*3, at, i*i%37, at)
		if i < 20 {
			fmt.Fprintf(&b, "a,g=x,i=3 value=%g %d\nb,g=x value=%d %d\n", float64(i)/7, at, i, at)
		}
		fmt.Fprintf(&b, "le_bucket,le=1 value=%d %d\nle_bucket,le=2 value=%d %d\nle_bucket,le=+Inf value=%d %d\n", i, at, 2*i, at, 3*i, at)
	}
	b.WriteString("uneven_bucket,le=1 value=5 300\nuneven_bucket,le=2 value=3 300\nuneven_bucket,le=+Inf value=4 300\n")
	return b.String()
}

// TestDirectEqualsEngine compares what is evaluated without Prometheus' engine with
// what the engine gives: statistics have it evaluate everything.
func TestDirectEqualsEngine(t *testing.T) {
	e := testEngine(t, testPoints(), 0)
	for _, expr := range []string{
		"a", "a offset 1m", "a @ 100", "rate(a[1m])", "sum(rate(a[1m]))", "sum by (g) (rate(a[2m] offset 30s))",
		"topk(2, a)", "bottomk by (g) (1, increase(a[1m]))", "quantile(0.3, a)", "avg without (i) (a)", "absent_series", "last_over_time(a[1m])",
		`quantile_over_time(0.9, {__name__=~"a|b"}[3m])`, `rate({__name__=~"a|b"}[3m])`, `rate({__name__=~"a|b",g="x",i=""}[3m])`,
		"sum(rate(a[1m])) / sum(rate(b[1m]))", "histogram_quantile(0.5, sum by (le) (rate(le_bucket[1m])))", "abs(a) > 5", "a + on (g) group_left () b",
		"histogram_quantile(0.5, sum by (le) (uneven_bucket @ 310))", "histogram_quantile(0.5, max_over_time(uneven_bucket[1m] @ end())) + time()",
		"abs(a @ 100) + scalar(sum(a @ start())) + vector(time())",
		`sum(rate({__name__=~"a|b"}[1m])) + count(a)`, "absent(a)", "max_over_time(rate(a[1m])[3m:30s])", "sum(rate(a[3m:])) by (g)", "deriv(sum by (g) (a)[2m:20s] offset 10s)", "rate((a)[3m:7s])",
		"sort(max_over_time((a + 1)[3m:30s]))", "max_over_time(max_over_time(rate(a[1m])[3m:30s])[2m:1m])", "sort(max_over_time(abs(rate(a[1m]))[3m:30s]))", "abs(rate(a[3m:30s] @ 200))", `absent_over_time(a{g="x",i="9"}[1m])`, `absent_over_time((a{g="x",i="9"}[1m]))`, "absent_over_time(a[1m])", `absent_over_time({__name__=~"a|b",g="x"}[30s]) + 1`, "absent_over_time(rate(b[1m])[1m:10s])", "absent_over_time(a[1m] @ 800)",
		`rate({__name__=~"a|b"}[3m:10s])`, "a[3m:10s]", "rate(a[1m])[3m:10s] offset 1m", "nothing or a", "sort(sum by (g) (a))",
		"histogram_quantile(0.5, ((a)))", "sort(((a)))", "histogram_quantile(0.5, label_replace((a), \"x\", \"\", \"\", \"\"))",
	} {
		for _, req := range []Request{
			{Start: time.Unix(30, 0), End: time.Unix(700, 0), Step: 20 * time.Second},
			{Start: time.Unix(301, 0), End: time.Unix(301, 0)},
			{Start: time.Unix(301, 0), End: time.Unix(400, 0), Step: 7 * time.Second, Limit: 1},
			{Start: time.Unix(5000, 0), End: time.Unix(6000, 0), Step: time.Minute},
		} {
			var got, want text
			req.DB, req.Expr = "p", expr
			err := got.run(e, req)
			req.Stats = true
			wantErr := want.run(e, req)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || got.Builder.String() != want.Builder.String() {
				t.Errorf("%s %+v:\ngot  %v\n%s\nwant %v\n%s", expr, req, err, got.Builder.String(), wantErr, want.Builder.String())
			}
		}
	}
}

// TestDirectMemory ends evaluations that need more memory than a query may have.
func TestDirectMemory(t *testing.T) {
	for expr, memory := range map[string]int64{"sum by (i) (a)": 6_000, "1 - a / a": 9_000} {
		e := testEngine(t, testPoints(), memory)
		var got text
		err := got.run(e, Request{Access: Access{DB: "p"}, Expr: expr, Start: time.Unix(0, 0), End: time.Unix(700, 0), Step: 10 * time.Second})
		if !errors.Is(err, admission.ErrMemory) || got.Len() > 0 {
			t.Errorf("%s: %v, %s", expr, err, got.Builder.String())
		}
	}
}

// failing is a sink whose client is gone.
type failing struct {
	text
	err error
}

func (f *failing) Series(*promql.Series) error { return f.err }

// TestDirectSinkFails ends an evaluation with the error of the sink.
func TestDirectSinkFails(t *testing.T) {
	e := testEngine(t, testPoints(), 0)
	gone := errors.New("gone")
	_, err := e.Run(t.Context(), &Request{Access: Access{DB: "p"}, Expr: "a", End: time.Unix(700, 0), Step: 10 * time.Second, Start: time.Unix(0, 0)}, &failing{err: gone})
	if err != gone {
		t.Error(err)
	}
}

// TestParts finds the parts of expressions that need no engine.
func TestParts(t *testing.T) {
	e := testEngine(t, testPoints()+"h __histogram__=\"x\" 10\n", 0)
	for _, c := range []struct {
		expr  string
		parts int
	}{
		{"sum(rate(a[1m])) / sum(rate(b[1m]))", 2},
		{"histogram_quantile(0.5, sum by (le) (rate(le_bucket[1m])))", 1},
		{"max_over_time(rate(a[1m])[3m:30s])", 1},
		{"abs(max_over_time(abs(rate(a[1m]))[3m:30s]))", 1},
		{"max_over_time((a - b)[3m:30s] @ 10)", 0}, // the engine evaluates it once
		{"absent(a)", 1},
		{"abs(h) + a", 1}, // histograms
		{`abs(rate({__name__=~"a|b",g="x",i!~"1|3"}[1m]))`, 1},
	} {
		req := &Request{Access: Access{DB: "p"}, Expr: c.expr, Start: time.Unix(0, 0), End: time.Unix(600, 0), Step: time.Minute}
		if err := e.admit(t.Context(), &req.Access, func() string { return c.expr }, func(r *run) error {
			expr, err := r.parse(c.expr)
			if err != nil {
				return err
			}
			parts, err := r.parts(req, expr)
			if err != nil {
				return err
			}
			defer parts.close()
			if len(parts.list) != c.parts {
				t.Errorf("%s: %d parts, want %d", c.expr, len(parts.list), c.parts)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestWindowsOf counts the windows of a query in which a function reads a sample.
func TestWindowsOf(t *testing.T) {
	for want, hints := range map[float64]storage.SelectHints{
		1:  {Start: 0, End: 660_000, Range: 60_000, Func: "rate"}, // smoothed, at one time
		6:  {Start: 0, End: 660_000, Range: 60_000, Step: 12_000, Func: "rate"},
		50: {Start: 0, End: 60_000, Range: 60_000, Func: "quantile_over_time"},
		0:  {Start: 0, End: 60_000, Step: 12_000},
	} {
		if got := windowsOf(&hints); got != want {
			t.Errorf("%+v: %v windows, want %v", hints, got, want)
		}
	}
}
