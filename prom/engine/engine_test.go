package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"
	"go.opentelemetry.io/otel"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
)

// newEngine returns an engine over points of line protocol, whose times are seconds,
// in the database db.
func newEngine(t testing.TB, limits admission.Limits, memory *admission.Memory, points string) *Engine {
	t.Helper()
	s := scantest.New()
	s.Create("db", "rp")
	if points != "" {
		s.Write(t, "db", "rp", "s", points)
	}
	t.Cleanup(func() {
		if n := s.Views(); n != 0 {
			t.Errorf("%d views are not released", n)
		}
	})
	return New(Options{Storage: s, Memory: memory, Queries: admission.NewQueries(limits, memory, slog.New(slog.DiscardHandler))})
}

// table is a sink that keeps a value as text.
type table struct {
	text   strings.Builder
	points int
	begin  func() error // nil: nothing
}

func (v *table) Begin(t parser.ValueType) error {
	fmt.Fprint(&v.text, t)
	if v.begin != nil {
		return v.begin()
	}
	return nil
}

func (v *table) Sample(s *promql.Sample) error {
	v.points++
	fmt.Fprintf(&v.text, "\n%s", s)
	return nil
}

func (v *table) Series(s *promql.Series) error {
	v.points += len(s.Floats)
	fmt.Fprintf(&v.text, "\n%s", s)
	return nil
}

func (v *table) Scalar(s promql.Scalar) error {
	fmt.Fprintf(&v.text, "\n%s", s)
	return nil
}

func (v *table) String(s promql.String) error {
	fmt.Fprintf(&v.text, "\n%s", s.V)
	return nil
}

// seriesOf returns n series m{i=...} with a sample at each of the first steps minutes.
func seriesOf(n, steps int) string {
	var b strings.Builder
	for i := range n {
		for step := range steps {
			fmt.Fprintf(&b, "m,i=%05d value=%d %d\n", i, i*step, 60*step)
		}
	}
	return b.String()
}

// request is a query at each of the first steps minutes.
func request(text string, steps int) *Request {
	req := &Request{Access: Access{DB: "db"}, Expr: text, Start: time.Unix(0, 0), End: time.Unix(60*int64(steps-1), 0)}
	if steps > 1 {
		req.Step = time.Minute
	}
	return req
}

func kindOf(err error) (Kind, bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Kind, true
}

// What the account is charged covers the value, also that of operators which turn a
// series into several points.
func TestChargeCoversValue(t *testing.T) {
	const series, steps = 50, 40
	memory := admission.NewMemory(1 << 30)
	e := newEngine(t, admission.Limits{MemoryBytes: 1 << 30}, memory, seriesOf(series, steps))
	for _, text := range []string{ // Stats: prom/window answers none of them
		"m", "m + 1", "-m", "m + on(i) m", "m or m * 2", "sum by (i) (m)", "topk(100, m)", "rate(m[5m])", "abs(rate(m[5m]))",
		"max_over_time((m)[30m:1m])", "m @ 60", "time()", "1", "vector(1)", "absent(nosuch)", "label_replace(m, \"a\", \"$1\", \"i\", \"(.*)\")",
		"max_over_time(vector(1)[1h:1s])", "sum(m)", "m offset 5m", "quantile_over_time(0.5, m[10m])",
	} {
		v := &table{}
		charged := int64(0)
		v.begin = func() error { charged = memory.Used(); return nil }
		req := request(text, steps)
		req.Stats = true
		if _, err := e.Run(t.Context(), req, v); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want := int64(v.points) * pointBytes; charged < want || v.points == 0 {
			t.Errorf("%s: %d bytes are charged, the value has %d points of %d bytes", text, charged, v.points, want)
		}
		if memory.Used() != 0 {
			t.Errorf("%s: %d bytes stay charged", text, memory.Used())
		}
	}
	// The samples of a range selector are the value.
	v := &table{}
	charged := int64(0)
	v.begin = func() error { charged = memory.Used(); return nil }
	req := request("m[1d]", 1)
	req.Start = time.Unix(86400, 0)
	req.End = req.Start
	if _, err := e.Run(t.Context(), req, v); err != nil || charged < 2*int64(v.points)*pointBytes || v.points < series*steps-series {
		t.Errorf("%d points, %d bytes, %v", v.points, charged, err)
	}
}

// Whatever a query asks for, it ends before it takes more than its limit.
func TestMemoryLimit(t *testing.T) {
	const limit = 192 << 10
	memory := admission.NewMemory(1 << 30)
	e := newEngine(t, admission.Limits{MemoryBytes: limit}, memory, seriesOf(300, 20))
	for _, text := range []string{
		"m", "rate(m[5m])", "sum(m)", "m[1d]", "max_over_time(m[100y:1ms])", "max_over_time(vector(1)[10y:1ms])", "time()" + strings.Repeat("+(time()", 100) + strings.Repeat(")", 100),
		"max_over_time(max_over_time(m[1y:1m])[1y:1s])", "m @ 60", "count_values(\"v\", m)",
		`m{i=~"` + strings.Join(strings.Split("a{900} b{900} c{900} d{900} e{900} f{900} g{900}", " "), "|") + `"}`,
	} {
		steps := 1000
		if strings.HasPrefix(text, "m[") {
			steps = 1
		}
		req := request(text, steps)
		if steps == 1 {
			req.Start = time.Unix(86400, 0)
			req.End = req.Start
		}
		req.Stats = true
		v := &table{}
		_, err := e.Run(t.Context(), req, v)
		if kind, ok := kindOf(err); !ok || kind != Execution || !errors.Is(err, admission.ErrMemory) {
			t.Errorf("%.60s: %d points, %v", text, v.points, err)
		}
		if memory.Used() != 0 {
			t.Errorf("%.60s: %d bytes stay charged", text, memory.Used())
		}
	}
	// A small query runs.
	if _, err := e.Run(t.Context(), request(`count(m{i="00001"})`, 3), &table{}); err != nil {
		t.Error(err)
	}
}

// A look-up with a limit takes memory for what it returns, not for all there is.
func TestLookupMemory(t *testing.T) {
	const series, measurements = 1500, 300
	var b strings.Builder
	for i := range series {
		fmt.Fprintf(&b, "m,i=%05d value=1 0\n", series-1-i)
	}
	for i := range measurements {
		fmt.Fprintf(&b, "n%05d,k%05d=%05d value=1 0\n", measurements-1-i, measurements-1-i, i)
	}
	memory := admission.NewMemory(1 << 30)
	e := newEngine(t, admission.Limits{MemoryBytes: 48 << 10}, memory, b.String())
	all, err := e.Selectors([]string{`{__name__=~"m|n.+"}`, `{__name__=~"n.+"}`, "m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, want string
		limit      int
	}{
		{"series", `{__name__="m", i="00000"} {__name__="m", i="00001"} {__name__="m", i="00002"} [results truncated due to limit]`, 3},
		{"labels", "__name__ i k00000 [results truncated due to limit]", 3},
		{"__name__", "m n00000 n00001 [results truncated due to limit]", 3},
		{"i", "00000 00001 00002 [results truncated due to limit]", 3},
		{"k00007", "00292 []", 3},
		{"series", "", 0},
		{"i", "", 0},
	} {
		l := &Lookup{Access: Access{DB: "db"}, Selectors: all, Start: time.Unix(0, 0), End: time.Unix(9, 0), Limit: c.limit}
		var got []string
		var out *Outcome
		switch c.what {
		case "series":
			out, err = e.Series(t.Context(), l, func(ls labels.Labels) error { got = append(got, ls.String()); return nil })
		case "labels":
			got, out, err = e.LabelNames(t.Context(), l)
		default:
			got, out, err = e.LabelValues(t.Context(), l, c.what)
		}
		if c.limit == 0 {
			if !errors.Is(err, admission.ErrMemory) {
				t.Errorf("%s without a limit: %d, %v", c.what, len(got), err)
			}
		} else if err != nil || strings.Join(got, " ")+" "+fmt.Sprint(out.Warnings) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.what, err, got, c.want)
		}
		if memory.Used() != 0 {
			t.Errorf("%s: %d bytes stay charged", c.what, memory.Used())
		}
	}
}

// replaced makes the label i longer, n times.
func replaced(expr string, n int, template string) string {
	for range n + 1 {
		expr = `label_replace(` + expr + `, "i", "` + template + `", "i", "(.*)")`
	}
	return expr
}

// Few new labels take little of the limit.
func TestLabelsInLimit(t *testing.T) {
	e := newEngine(t, admission.Limits{MemoryBytes: 192 << 10}, nil, seriesOf(20, 20))
	for _, text := range []string{replaced("m", 1, "$1-$1"), `label_join(m, "a", "-", "i", "__name__", "i")`, `count_values("v", m{i="00001"})`} {
		if _, err := e.Run(t.Context(), request(text, 20), &table{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Labels that functions make are charged before they are made.
func TestLabelsLimit(t *testing.T) {
	e := newEngine(t, admission.Limits{MemoryBytes: 192 << 10}, nil, seriesOf(20, 20))
	long := strings.Repeat("a", 10<<10)
	for _, text := range []string{
		replaced("m", 3, "$1$1$1$1$1$1$1$1$1$1"), replaced("vector(1)", 0, strings.Repeat(long, 20)), `label_join(m, "` + long + `", "", "i")`,
		`label_join(m, "a", "` + long + `", "i", "i", "i")`, `count_values("` + long + `", m)`,
	} {
		_, err := e.Run(t.Context(), request(text, 2), &table{})
		if !errors.Is(err, admission.ErrMemory) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// Regular expressions of all selectors of a request share a bound.
func TestSelectorsShareBound(t *testing.T) {
	e := newEngine(t, admission.Limits{}, nil, "")
	texts := slices.Repeat([]string{`m{a=~"(a{100}){10}"}`}, 1000)
	if _, err := e.Selectors(texts[:2]); err != nil {
		t.Error(err)
	}
	_, err := e.Selectors(texts)
	if kind, _ := kindOf(err); kind != BadData || !strings.HasPrefix(fmt.Sprint(err), "regular expressions are too large") {
		t.Error(err)
	}
}

// A query ends when the heap gets short, unless it is small.
func TestShortOfMemory(t *testing.T) {
	memory := admission.NewMemory(1 << 30)
	e := newEngine(t, admission.Limits{}, memory, seriesOf(10, 10))
	for _, tt := range []struct {
		text string
		ends bool
	}{{"m", false}, {replaced("m", 7, "$1$1$1"), true}} {
		v := &table{}
		// The sink waits until the query ends, or long enough to know that it does not.
		ended := make(chan struct{})
		req := request(tt.text, 10)
		req.Interrupt = func() { close(ended) }
		v.begin = func() error {
			memory.SetShort(true) // now that the query holds what it takes
			wait := 10 * time.Second
			if !tt.ends {
				wait = 3 * watchInterval
			}
			select {
			case <-ended:
			case <-time.After(wait):
			}
			return nil
		}
		_, err := e.Run(t.Context(), req, v)
		memory.SetShort(false)
		if tt.ends != errors.Is(err, admission.ErrMemory) {
			t.Errorf("%s: %v", tt.text, err)
		}
	}
}

// TestSubqueryReads refuses subqueries whose windows would be read for minutes, which
// nothing could end.
func TestSubqueryReads(t *testing.T) {
	e := newEngine(t, admission.Limits{}, nil, seriesOf(10, 10))
	for text, refused := range map[string]bool{
		"sum_over_time(sum_over_time(vector(1)[1d:1s])[1d:1s])": true,
		"sum_over_time(vector(1)[1h:1s])":                       false,
		"max_over_time(sum_over_time(m[5m])[1h:1m])":            false,
	} {
		_, err := e.Run(t.Context(), request(text, 1), &table{})
		if got := err != nil && strings.Contains(err.Error(), "the windows of a series have"); got != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Windows of a series that have too many points end the evaluation, whichever way they
// come from.
func TestLongWindows(t *testing.T) {
	e := newEngine(t, admission.Limits{}, nil, seriesOf(3, 100)+"h __histogram__=\"x\",value=1 600\nwide __histogram__=\""+strings.Repeat("x", 8000)+"\",value=1 600\n")
	for text, want := range map[string]float64{ // samples, and in how many windows they are
		"rate(m[10m])":                      79 * 11,
		"rate(m[10m] @ 900)":                0,
		"max_over_time((m + 1)[10m:30s])":   71 * 20,
		"max_over_time(rate(m[10m])[5m:])":  71 * 5,
		"quantile_over_time(0.5, m[10m])":   79 * 11 * 50,
		"quantile_over_time(1, (-m)[10m:])": 71 * 10 * 50,
		"m":                                 0,
		"rate(h[10m])":                      1 * 11 * (10 + 1./8),
		"sum_over_time(h[10m])":             1 * 11 * (100 + 2),
		"rate(wide[10m])":                   1 * 11 * (10 + 1000),
		"avg_over_time(wide[10m])":          1 * 11 * (100 + 16000), // a histogram weighs by its buckets
	} {
		req := request(text, 80)
		req.Start, req.Stats = req.Start.Add(600*time.Second), true
		for _, reads := range []float64{1, 1e6} {
			err := e.admit(t.Context(), &req.Access, func() string { return text }, func(r *run) error {
				expr, err := r.parse(text)
				if err != nil {
					return err
				}
				return r.engine(req, expr, reads, func(*promql.Result, *stats.Statistics) error { return nil })
			})
			var long *longWindows
			if got := errors.As(err, &long); got != (want > reads) || got && long.reads != want {
				t.Errorf("%s with %g: %v", text, reads, err)
			}
		}
	}
}

// A query shows its text and its database, and ends when it is killed, when its time is
// over, and when its client goes away.
func TestQueryEnds(t *testing.T) {
	e := newEngine(t, admission.Limits{}, nil, seriesOf(10, 10))
	for _, tt := range []struct {
		name string
		end  func(cancel context.CancelFunc, id uint64)
		kind Kind
		text string
	}{
		{"kill", func(_ context.CancelFunc, id uint64) { _ = e.opt.Queries.Kill(id) }, Canceled, "query interrupted"},
		{"client", func(cancel context.CancelFunc, _ uint64) { cancel() }, Canceled, "query was canceled in query execution"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		v := &table{}
		v.begin = func() error {
			list := e.opt.Queries.List()
			if len(list) != 1 || list[0].Text != "m * 2" || list[0].Database != "db" || list[0].User != "ann" {
				t.Errorf("%s: running: %+v", tt.name, list)
			}
			tt.end(cancel, list[0].ID)
			return nil
		}
		req := request("m * 2", 10)
		req.User = "ann"
		_, err := e.Run(ctx, req, v)
		cancel()
		if kind, ok := kindOf(err); !ok || kind != tt.kind || err.Error() != tt.text {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(e.opt.Queries.List()) != 0 {
			t.Errorf("%s: still running", tt.name)
		}
	}
	e.opt.Queries.SetLimits(admission.Limits{QueryTimeout: time.Nanosecond})
	_, err := e.Run(t.Context(), request("m", 10), &table{})
	if kind, ok := kindOf(err); !ok || kind != Timeout || !strings.HasPrefix(err.Error(), "query timed out in ") {
		t.Errorf("timeout: %v", err)
	}
	e.opt.Queries.SetLimits(admission.Limits{MaxConcurrentQueries: 1})
	v := &table{}
	v.begin = func() error {
		_, err := e.Run(t.Context(), request("m", 10), &table{})
		if kind, ok := kindOf(err); !ok || kind != Unavailable || err.Error() != "max-concurrent-queries limit exceeded(1, 1)" {
			t.Errorf("two queries: %v", err)
		}
		return nil
	}
	if _, err := e.Run(t.Context(), request("m", 10), v); err != nil {
		t.Error(err)
	}
	// The error of a sink is its own.
	v.begin = func() error { return context.DeadlineExceeded }
	if _, err := e.Run(t.Context(), request("m", 10), v); err != context.DeadlineExceeded {
		t.Errorf("sink: %v", err)
	}
}

// panicking is a storage with a bug.
type panicking struct{ scan.Storage }

func (panicking) View(string, string, model.TimeRange) (scan.View, error) { panic("a bug") }

func TestPanicIsAnError(t *testing.T) {
	e := newEngine(t, admission.Limits{}, nil, "")
	e.opt.Storage = panicking{}
	_, err := e.Run(t.Context(), request("m", 10), &table{})
	if kind, ok := kindOf(err); !ok || kind != Internal || e.opt.Queries.Figures().Panics != 1 {
		t.Errorf("%v, %+v", err, e.opt.Queries.Figures())
	}
	_, _, err = e.LabelNames(t.Context(), &Lookup{Access: Access{DB: "db"}})
	if kind, ok := kindOf(err); !ok || kind != Internal {
		t.Errorf("labels: %v", err)
	}
}

// Long and deep texts are refused or answered, but take no stack and no time.
func TestHostileTexts(t *testing.T) {
	e := newEngine(t, admission.Limits{MemoryBytes: 1 << 28}, admission.NewMemory(1<<28), "m value=1 0")
	nest := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for _, text := range []string{
		nest("(", "1", ")", 4_900), nest("-", "m", "", 9_900), nest("m+", "m", "", 1_000), nest("abs(", "m", ")", 3_000), nest("m+(", "m", ")", 1_000),
		nest("max_over_time(", "m", "[1m:1m])", 1_000), nest("sum(", "m", ")", 3_000),
	} {
		if _, err := e.Run(t.Context(), request(text, 2), &table{}); err != nil {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	for _, text := range []string{strings.Repeat("(", 30_000), strings.Repeat("-", 1<<20) + "1", "m{" + strings.Repeat(`a="b",`, 10_000) + "}"} {
		_, err := e.Run(t.Context(), request(text, 2), &table{})
		if !errors.Is(err, errTooManyWords) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

// The context of an expression is as deep for an inner node as for the outer one:
// else the time of a deep expression grows with the square of its depth.
func TestContextStaysFlat(t *testing.T) {
	New(Options{})
	ctx, span := otel.Tracer("").Start(t.Context(), "eval")
	defer span.End()
	if ctx != t.Context() {
		t.Errorf("a span makes the context %v", ctx)
	}
}

// Queries with count_values are evaluated in slices. Their values are those of the
// engine at once, also with modifiers that name the ends of the query.
func TestSlices(t *testing.T) {
	memory := admission.NewMemory(1 << 30)
	e := newEngine(t, admission.Limits{MemoryBytes: 1 << 30}, memory, seriesOf(9, 30))
	e.SetLimits(Limits{Experimental: true})
	for _, text := range []string{
		`count_values("v", m)`, `count_values by (i) ("v", m % 7)`, `count_values("v", m @ start())`, `count_values("v", m @ end() + m)`,
		`sum(count_values("v", m)) or m{i="00002"}`, `count_values("v", max_over_time(m[5m:1m] @ start()))`, `max(count_values("v", m % 3))`,
		`count_values("v", sum_over_time(m[range()/2]) + step() + range() + start() + end())`,
	} {
		for _, steps := range []int{2, sliceSteps, sliceSteps + 1, 29} {
			req := request(text, steps)
			req.End = req.End.Add(30 * time.Second) // not at a step
			req.Step += 900 * time.Microsecond      // which the engine ignores
			var sliced, whole table
			out, err := e.Run(t.Context(), req, &sliced)
			if err != nil || out.Stats == nil {
				t.Fatalf("%s: %v", text, err)
			}
			err = e.admit(t.Context(), &req.Access, func() string { return text }, func(r *run) error {
				expr, err := r.parse(text)
				if err != nil {
					return err
				}
				return r.engine(req, expr, maxReads, func(res *promql.Result, _ *stats.Statistics) error {
					_, err := r.hand(res.Value, 0, &whole)
					return err
				})
			})
			if err != nil || sliced.text.String() != whole.text.String() {
				t.Errorf("%s with %d steps: %v\n%s\nat once:\n%s", text, steps, err, &sliced.text, &whole.text)
			}
		}
	}
	// A slice of one step is a range still, for which sort has no effect.
	for text, want := range map[string]string{
		"sort(sort_desc(m)) + 1": "[PromQL warning: sort is ineffective for range queries since results are always ordered by labels (1:1)]",
		"sum(sort(m @ 60))":      "[]",
	} {
		req := request(text, 3)
		err := e.admit(t.Context(), &req.Access, func() string { return text }, func(r *run) error {
			expr, err := r.parse(text)
			if err != nil {
				return err
			}
			out, err := r.sliced(req, expr, &table{}, 1)
			if err == nil && fmt.Sprint(out.Warnings) != want {
				t.Errorf("%s: %s", text, out.Warnings)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if memory.Used() != 0 {
		t.Errorf("%d bytes stay charged", memory.Used())
	}
	// The limit holds for what the slices give together.
	e.opt.Queries.SetLimits(admission.Limits{MemoryBytes: 150_000})
	if _, err := e.Run(t.Context(), request(`count_values("v", m)`, 9), &table{}); err != nil {
		t.Error(err)
	}
	if _, err := e.Run(t.Context(), request(`count_values("v", m + time())`, 300), &table{}); !errors.Is(err, admission.ErrMemory) {
		t.Error(err)
	}
}

// Durations that are computed equal durations that are written, for whatever evaluates
// them, and the bounds hold for them.
func TestDurations(t *testing.T) {
	memory := admission.NewMemory(1 << 30)
	e := newEngine(t, admission.Limits{MemoryBytes: 32 << 20}, memory, seriesOf(9, 60))
	for text, plain := range map[string]string{ // of 29 steps: a step is 1m, the range 28m
		"rate(m[2m+1m])":                               "rate(m[3m])",
		"rate(m[step()*4])":                            "rate(m[4m])",
		"m offset (range()/4)":                         "m offset 7m",
		"m offset -step()":                             "m offset -1m",
		"sum(avg_over_time(m[range()/7] offset (1m)))": "sum(avg_over_time(m[4m] offset 1m))",
		"max_over_time(rate(m[2*step()])[min_of(range(), 5m):max_of(step()/2, 10s)] offset (2m-1m))": "max_over_time(rate(m[2m])[5m:30s] offset 1m)",
		`count_values("v", sum_over_time(m[range()/2]))`:                                             `count_values("v", sum_over_time(m[14m]))`,
		"rate(m[range()]) / rate(m[step() * 3])":                                                     "rate(m[28m]) / rate(m[3m])",
		"absent_over_time(nosuch[range()])":                                                          "absent_over_time(nosuch[28m])",
	} {
		for _, stats := range []bool{false, true} { // with them Prometheus' engine evaluates all
			var got, want table
			for text, v := range map[string]*table{text: &got, plain: &want} {
				req := request(text, 29)
				req.Stats = stats
				if _, err := e.Run(t.Context(), req, v); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
			if got.text.String() != want.text.String() {
				t.Errorf("%s: %s\n%s: %s", text, &got.text, plain, &want.text)
			}
		}
	}
	for text, want := range map[string]string{
		"rate(m[step()-1m])":        "7:16: duration must be greater than 0",
		"m offset (1m/(1m-step()))": "division by zero",
		"limitk(1, m)":              "limitk() is experimental",
		"max_over_time(vector(1)[100*365d:step()*0.0001])":                      "memory",
		"sum_over_time(sum_over_time(vector(1)[range()*60:1s])[range()*60:1s])": "the windows of a series have",
		"max_over_time((m)[100*365d:step()*0.001])":                             "memory",
	} {
		if _, err := e.Run(t.Context(), request(text, 29), &table{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if memory.Used() != 0 {
		t.Errorf("%d bytes stay charged", memory.Used())
	}
}

// Each quantile of histogram_quantiles is a series, which is charged.
func TestQuantilesMemory(t *testing.T) {
	var points strings.Builder
	for i := range 100 {
		fmt.Fprintf(&points, "h,i=%d,le=1 value=1 60\nh,i=%d,le=+Inf value=2 60\n", i, i)
	}
	e := newEngine(t, admission.Limits{MemoryBytes: 1200 << 10}, nil, points.String())
	e.SetLimits(Limits{Experimental: true})
	for n, fits := range map[int]bool{3: true, 10: false} {
		_, err := e.Run(t.Context(), request(`histogram_quantiles(h, "q"`+strings.Repeat(", 0.5", n)+`)`, 5), &table{})
		if fits != (err == nil || !errors.Is(err, admission.ErrMemory)) {
			t.Errorf("%d quantiles: %v", n, err)
		}
	}
}
