package window

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
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

// divided is series, and the parts of an expression over them.
type divided struct {
	memory
	parts []Part
	sets  []*Set
}

func (d *divided) Querier(int64, int64) (storage.Querier, error) {
	plain, _ := d.memory.Querier(0, 0)
	return &storage.MockQuerier{SelectMockFunction: func(sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		for _, p := range d.parts {
			if matchers[0] != p.Selector.LabelMatchers[0] {
				continue
			}
			env := Env{Charge: func(int64) error { return nil }, Check: func() error { return nil }}
			s, err := p.NewSet(append(memory(nil), d.memory...), env)
			if err != nil {
				return storage.ErrSeriesSet(err)
			}
			d.sets = append(d.sets, s)
			return s
		}
		return plain.Select(context.Background(), sorted, hints, matchers...)
	}}, nil
}

// given parses every text as one expression.
type given struct {
	parser.Parser
	expr parser.Expr
}

func (g given) ParseExpr(string) (parser.Expr, error) { return g.expr, nil }

// steady returns a query that has a plan, and whose series the engine gives an order.
func steady(r *rand.Rand) string {
	for {
		if query := planned(r); !strings.Contains(query, "topk") && !strings.Contains(query, "bottomk") {
			return query
		}
	}
}

// composed returns a random expression of parts with and without a plan.
func composed(r *rand.Rand, depth int) string {
	if depth == 0 {
		return steady(r)
	}
	part := composed(r, depth-1)
	switch r.IntN(15) {
	case 14:
		window := fmt.Sprintf("[%ds]", 1+r.IntN(9))
		if r.IntN(3) == 0 {
			return fmt.Sprintf("absent_over_time((%s)[%ds:%ds])", steady(r), 1+r.IntN(9), 1+r.IntN(3))
		}
		return "absent_over_time(" + []string{"m", `m{g="1",i!="x"}`, `{__name__=~"m|n_total",g="7",i="1"}`}[r.IntN(3)] + window + ")"
	case 0:
		return fmt.Sprintf("(%s) / on (g) group_left () max by (g) (%s)", part, steady(r))
	case 1:
		return fmt.Sprintf("(%s) > 0", part)
	case 2:
		return "abs(" + planned(r) + ")"
	case 3:
		return fmt.Sprintf("min by (g) (abs(%s))", part) // of zeros of both signs the first counts
	case 4:
		return fmt.Sprintf("(%s) or (%s)", part, steady(r))
	case 5:
		return fmt.Sprintf("(%s) unless (%s)", part, planned(r))
	case 6:
		return "absent(" + part + ")"
	case 7:
		return fmt.Sprintf("max_over_time((%s)[10s:3s])", part)
	case 8:
		part = steady(r)
		return fmt.Sprintf("sum(label_replace(%s, \"n\", \"$1\", \"i\", \"(.*)\"))", part) // depends on the order
	case 9:
		return fmt.Sprintf("label_replace(%s, \"n\", \"$1\", \"i\", \"(.*)\")", part)
	case 10:
		return "timestamp(" + part + ")"
	case 11:
		return fmt.Sprintf("(%s) * 3 + scalar(%s)", part, planned(r))
	case 12:
		return fmt.Sprintf("count_values(\"v\", %s)", part)
	}
	return fmt.Sprintf("(%s) and on () vector(1)", part)
}

// TestPartsEqualPromQL compares expressions whose parts are computed by plans with
// Prometheus' engine.
func TestPartsEqualPromQL(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 5))
	parts := 0
	for round := range 600 {
		d := &divided{memory: metrics(r)}
		q, g := times(r)
		query := composed(r, 1+r.IntN(3))
		expr, err := engineParser().ParseExpr(query)
		if err != nil {
			continue
		}
		want, wantNotes := engineAnswer(t, d.memory, query, q, g)
		d.parts, err = Parts(expr, q, func(p *Plan) (bool, error) { return fits(t, p, d.memory) && !p.Fixed() && r.IntN(5) > 0, nil })
		if err != nil {
			t.Fatal(err)
		}
		parts += len(d.parts)
		engine := promql.NewEngine(promql.EngineOpts{
			MaxSamples: math.MaxInt, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return 2000 }, Parser: given{expr: expr},
		})
		got, notes := answerFrom(t, engine, d, query, q, g, func() (all annotations.Annotations) {
			for _, s := range d.sets {
				all.Merge(s.Notes())
			}
			return all
		})
		// Most operators of the engine take the order of a map.
		got, want = sortedLines(got), sortedLines(want)
		if got != want && !(strings.HasPrefix(got, "error") && strings.HasPrefix(want, "error")) || places(notes) != places(wantNotes) {
			t.Fatalf("seed %d round %d: %s over %+v step %v, now %s\ngot\n%s%s\nwant\n%s%s", seed, round, query, g, q.Step, expr, got, notes, want, wantNotes)
		}
	}
	if parts < 200 {
		t.Errorf("only %d parts were computed", parts)
	}
}

// TestFixedParts holds that Fixed says what has one value for all steps. Callers leave it to the
// engine, which evaluates it once: else it says about each step what there is to say once.
func TestFixedParts(t *testing.T) {
	for query, want := range map[string]int{
		"histogram_quantile(0.9, sum by (le) (rate(a[1m])))":         1,
		"histogram_quantile(0.9, sum by (le) (rate(a[1m] @ end())))": 0,
		"abs(sum(a @ 7)) + abs(sum(a))":                              1,
	} {
		expr, err := engineParser().ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		q := &Query{Start: time.UnixMilli(1000), End: time.UnixMilli(5000), Step: time.Second, Lookback: time.Minute}
		parts, err := Parts(expr, q, func(p *Plan) (bool, error) { return !p.Fixed(), nil })
		if err != nil || len(parts) != want {
			t.Errorf("%s: %d parts, want %d; %v", query, len(parts), want, err)
		}
	}
}

// TestPartsKeepPlaces holds that what is around parts stays where it was: notes name places.
func TestPartsKeepPlaces(t *testing.T) {
	for _, query := range []string{"(a) / ((b))", "histogram_quantile(0.9, ((a)))", "-((a)) + on () (abs((rate(a[1m]))))"} {
		expr, err := engineParser().ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		places := func() (all []string) {
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				switch n.(type) {
				case *parser.BinaryExpr, *parser.ParenExpr, *parser.UnaryExpr:
					all = append(all, fmt.Sprint(n.PositionRange()))
				}
				return nil
			})
			return all
		}
		before := places()
		q := &Query{Start: time.UnixMilli(1000), End: time.UnixMilli(5000), Step: time.Second, Lookback: time.Minute}
		parts, err := Parts(expr, q, func(*Plan) (bool, error) { return true, nil })
		if err != nil || len(parts) == 0 {
			t.Errorf("%s: %d parts, %v", query, len(parts), err)
		}
		if after := places(); !slices.Equal(before, after) {
			t.Errorf("%s: places %v, were %v", query, after, before)
		}
	}
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// places leaves out where notes are: of equal ones the engine keeps any.
func places(notes string) string {
	return regexp.MustCompile(`\(\d+:\d+\)`).ReplaceAllString(notes, "")
}
