package promjudge

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
)

var (
	datasets    = flag.Int("datasets", 4, "Fuzz: number of datasets")
	queries     = flag.Int("queries", 400, "Fuzz: queries of each dataset")
	withNatives = flag.Bool("natives", true, "Fuzz: datasets have native histograms")
	dataset     = flag.Int("dataset", -1, "Fuzz: only this dataset")
	expr        = flag.String("expr", "", "Fuzz: only this expression")
	start       = flag.Int64("start", 0, "Fuzz: ms, with -expr")
	end         = flag.Int64("end", 0, "Fuzz: ms, with -expr")
	step        = flag.Int64("step", 0, "Fuzz: ms, with -expr; 0: an instant query at -end")
)

// engineOptions are those of an engine of Prometheus.
func engineOptions(options parser.Options) promql.EngineOpts {
	return promql.EngineOpts{
		MaxSamples: 5_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true, EnableNegativeOffset: true,
		Parser: parser.NewParser(options),
	}
}

// TestFuzz asks the server and the reference the same.
func TestFuzz(t *testing.T) {
	seed := testseed.Of(t)
	for i := range *datasets {
		if *dataset < 0 || i == *dataset {
			t.Run(fmt.Sprint(i), func(t *testing.T) { fuzz(t, seed, i) })
		}
	}
}

// mostFailures is the number of failures of a dataset that are told.
const mostFailures = 10

func fuzz(t *testing.T, seed uint64, number int) {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	data := NewDataset(r, *withNatives)
	ref, err := NewReference(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ref.Close() })
	if err := ref.Store(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	l := []layout{cached, mixed, flushed, compacted}[number%4]
	s := newStore(t, data, l)
	t.Run("served", func(t *testing.T) { compare(t, r, number, l, data, ref, served(s, asked)) })
	t.Run("experimental", func(t *testing.T) { compare(t, r, number, l, data, ref, served(s, every)) })
	t.Run("stored", func(t *testing.T) { compare(t, r, number, l, data, ref, stored(s)) })
}

// rounds is how often the reference is asked again before an answer counts as different.
// Some answers of Prometheus differ each time: its engine puts the series that a function
// returns for a range in the order of a map, and an aggregation adds them up in that order.
// Often only one order of many has other last bits.
const rounds = 1000

// compare asks an asker and the reference random questions.
func compare(t *testing.T, r *rand.Rand, number int, l layout, data *Dataset, ref *Reference, server asker) {
	ng := promql.NewEngine(engineOptions(server.options))
	unsteady := 0
	differs := func(q Question) (*Answer, string) {
		want := Ask(t.Context(), ng, ref, q)
		got := server.ask(t.Context(), q)
		d := Differs(got, want)
		if got.Err != "" && want.Err != "" && strings.Contains(q.Expr, "count_values") {
			return want, "" // the server evaluates a few steps at a time: of two errors it may find the other one first
		}
		for i := 0; i < rounds && d != ""; i++ {
			if Differs(Ask(t.Context(), ng, ref, q), want) != "" {
				unsteady++
				return want, ""
			}
		}
		return want, d
	}
	expressions := NewExpressions(r, data, server.options)
	var asked, valued, failed int
	for asked < *queries/2 && failed < mostFailures {
		q := data.question(r, expressions.Next())
		if *expr != "" {
			q = Question{*expr, *start, *end, *step}
			asked = *queries
		}
		if _, err := parser.NewParser(server.options).ParseExpr(q.Expr); err != nil && *expr == "" {
			continue
		}
		asked++
		want, d := differs(q)
		if want.Values() > 0 {
			valued++
		}
		if d == "" {
			continue
		}
		failed++
		q = shrink(q, func(q Question) bool {
			_, d := differs(q)
			return d != ""
		})
		_, d = differs(q)
		t.Errorf("-dataset=%d -expr='%s' -start=%d -end=%d -step=%d (%s)\n%.1000s", number, q.Expr, q.Start, q.End, q.Step, l, d)
	}
	if *expr == "" && valued < asked/3 {
		t.Errorf("%d of %d answers have values", valued, asked)
	}
	if *expr == "" && unsteady > asked/20 {
		t.Errorf("%d of %d answers of the reference differ from one time to the next", unsteady, asked)
	}
	figure.Report(t, "random PromQL with native histograms beside Prometheus' engine", figure.Count{N: asked, Of: "queries"})
	t.Logf("%s, %d series: %d queries with values, %d unsteady, %d differ", l, len(data.Series), valued, unsteady, failed)
}

// shrink returns the smallest part of a question that still differs.
func shrink(q Question, differs func(Question) bool) Question {
	for {
		expr, err := parser.NewParser(every).ParseExpr(q.Expr)
		if err != nil {
			return q
		}
		smaller := ""
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			part, ok := node.(parser.Expr)
			if !ok || smaller != "" || len(part.String()) >= len(q.Expr) || part.Type() != parser.ValueTypeVector && part.Type() != parser.ValueTypeScalar {
				return nil
			}
			if differs(Question{part.String(), q.Start, q.End, q.Step}) {
				smaller = part.String()
			}
			return nil
		})
		if smaller == "" {
			return q
		}
		q.Expr = smaller
	}
}

// question returns a question with random times.
func (d *Dataset) question(r *rand.Rand, text string) Question {
	q := Question{Expr: text}
	span := d.End - d.Start
	q.End = d.Start + r.Int64N(span) + r.Int64N(d.Interval)
	if r.IntN(8) == 0 {
		q.End += span / 2
	}
	if r.IntN(4) == 0 {
		return q
	}
	q.Step = []int64{d.Interval, d.Interval, 4 * d.Interval, 60_000, d.Interval / 2, 1 + r.Int64N(10*d.Interval)}[r.IntN(6)]
	q.Start = max(q.End-r.Int64N(span), q.End-500*q.Step)
	if r.IntN(2) == 0 {
		q.Start -= q.Start % q.Step
	}
	return q
}
