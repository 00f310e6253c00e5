package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/prom"
	"tsdbd/prom/operator"
	"tsdbd/prom/window"
)

// problem returns an error without the series that it names: those that the engine meets
// first.
func problem(err error) string {
	text, _, _ := strings.Cut(fmt.Sprint(err), ": [")
	return text
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// randomly returns random expressions of operators, functions, and aggregations.
type randomly struct{ *rand.Rand }

func (r randomly) of(all ...string) string { return all[r.IntN(len(all))] }

func (r randomly) leaf() string {
	return r.of(
		"a", "b", "two", "rate(a[1m])", `{__name__=~"a|b"}`, `a{i="1"}`, "sum by (g) (a)", "sum(b)", "a offset 1m", "count by (g) (two)",
		"max_over_time(a[2m])", "a @ 100", "topk(1, a)", "nothing", `rate({__name__=~"a|b",i=""}[3m])`, "le_bucket", "-(a)", "typed",
		"rate(le_bucket[2m])", "uneven_bucket", `le_bucket{le!="2"}`, "vector(time())", "c", "c", "rate(c[50s])",
		"h", "sum by (g) (h)", "a / 0",
	)
}

func (r randomly) number(depth int) string {
	if r.IntN(6) == 0 {
		return r.of("time()", "scalar("+r.vector(depth)+")", "(time() % 7 - 3)", "-time()")
	}
	return r.of("0", "1", "100", "-3.5", "NaN", "Inf", "(1 + 2)", "(2 > bool 3)")
}

func (r randomly) pairs() string {
	return r.of("", "", "", "on (g) ", "on () ", "ignoring (i) ", "ignoring (z) ", "on (g, i) ", "ignoring (i, z) ")
}

// vector returns an expression that gives series.
func (r randomly) vector(depth int) string {
	op := func() string {
		return r.of("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "> bool", "== bool", "<= bool")
	}
	group := func() string {
		return r.of("", "by (g) ", "by (i) ", "without (i) ", "by (g, i) ", "without () ", "by (le) ")
	}
	switch r.IntN(8 + 4*depth) {
	case 0:
		return "(" + r.number(depth+2) + " " + op() + " " + r.vector(depth+2) + ")"
	case 1:
		return "(" + r.vector(depth+2) + " " + op() + " " + r.number(depth+2) + ")"
	case 2, 3:
		return "(" + r.vector(depth+2) + " " + op() + " " + r.pairs() + r.vector(depth+2) + ")"
	case 4:
		return "(" + r.vector(depth+2) + " " + op() + " " + r.of("on (g) ", "ignoring (i) ", "on (i) ", "on () ", "on (g, i) ") +
			r.of("group_left () ", "group_right () ", "group_left (i) ", "group_right (z) ") + r.vector(depth+2) + ")"
	case 5:
		return "(" + r.vector(depth+2) + r.of(" and ", " or ", " unless ") + r.pairs() + r.vector(depth+2) + ")"
	case 6:
		if r.IntN(4) == 0 {
			return "histogram_quantile(" + r.of("0.5", "0.99") + ", " + r.of("", "sum by (le, g) ", "max by (le) ") + "(" + r.vector(depth+2) + "))"
		}
		of := "(" + r.vector(depth+1) + ")"
		if r.IntN(8) == 0 {
			return "quantile " + group() + "(0.3, " + of + ")"
		}
		return r.of("sum ", "avg ", "min ", "max ", "count ", "group ") + group() + of
	case 7:
		switch r.IntN(6) {
		case 0:
			return "clamp_min(" + r.vector(depth+1) + ", " + r.number(depth+2) + ")"
		case 1:
			return "clamp(" + r.vector(depth+1) + ", " + r.number(depth+2) + ", " + r.number(depth+2) + ")"
		case 2:
			return "round(" + r.vector(depth+1) + r.of("", ", 0.3", ", 10") + ")"
		case 3:
			return r.of("max_over_time", "sum_over_time", "rate", "last_over_time", "predict_linear") + "((" + r.vector(depth+2) + ")[2m:20s])"
		case 4:
			return "-(" + r.vector(depth+1) + ")"
		}
		return r.of("abs", "ceil", "sqrt", "ln", "sgn", "exp") + "(" + r.vector(depth+1) + ")"
	}
	return r.leaf()
}

// TestOperatorsEqualEngine compares random operators, functions, and aggregations with what
// Prometheus' engine gives: statistics have it evaluate everything. Most of them must have
// a tree.
func TestOperatorsEqualEngine(t *testing.T) {
	r := randomly{rand.New(rand.NewPCG(testseed.Of(t), 0))}
	points := testPoints() + "two,g=x,i=1,z=1 value=3 30\ntwo,g=x,i=1,z=2 value=4 400\ntyped,__type__=gauge,i=1 value=5 100\ntyped,__type__=counter,i=1 value=6 300\ntyped,i=2 value=7 300\n"
	for i := range 12 { // series with gaps
		for at := range 50 {
			if r.IntN(3+i) > 1 {
				points += fmt.Sprintf("c,g=%s,i=%d value=%d %d\n", r.of("x", "y", "z"), i%4, r.IntN(50)-10, at*15+r.IntN(5))
			}
		}
	}
	for at := 15; at < 600; at += 15 { // floats, and histograms from 300 s on
		if at < 300 {
			points += fmt.Sprintf("h,g=x,i=1 value=%d %d\n", at, at)
			continue
		}
		h := &histogram.Histogram{Sum: 3, Count: 3, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{3}}
		points += fmt.Sprintf("h,g=x,i=1 %s=\"%s\" %d\n", prom.HistogramField, prom.AppendHistogram(nil, &prom.Histogram{Int: h}), at)
	}
	e := testEngine(t, points, 0)
	asked, values, trees := 0, 0, 0
	for range testseed.Rounds(400) {
		expr := r.vector(0)
		for _, req := range []Request{
			{Start: time.Unix(30, 0), End: time.Unix(700, 0), Step: 20 * time.Second},
			{Start: time.Unix(301, 0), End: time.Unix(301, 0)},
			{Start: time.Unix(301, 0), End: time.Unix(400, 0), Step: 7 * time.Second, Limit: 1},
		} {
			if parsed, err := experimental.ParseExpr(expr); err == nil && operator.New(parsed, &window.Query{Start: req.Start, End: req.End, Step: req.Step, Substep: time.Second}) != nil {
				trees++
			}
			var got, want text
			req.DB, req.Expr = "p", expr
			err := got.run(e, req)
			// The order of series may be that of a map in the engine, also the order in which
			// it adds them up.
			equal := false
			for try := 0; try < 100 && !equal; try++ {
				want.Reset()
				req.Stats = true
				wantErr := want.run(e, req)
				a, b := fmt.Sprintln(problem(err), got.Builder.String()), fmt.Sprintln(problem(wantErr), want.Builder.String())
				if req.Step == 0 && (strings.Contains(expr, "20s]") || strings.Contains(expr, "quantile")) {
					a, b = sortedLines(a), sortedLines(b)
				}
				equal = a == b
			}
			if !equal {
				t.Fatalf("%s %+v:\ngot  %v\n%s\nwant\n%s", expr, req, err, got.Builder.String(), want.Builder.String())
			}
			asked++
			if got.Len() > 20 {
				values++
			}
		}
	}
	if trees < asked/2 {
		t.Errorf("only %d of %d requests have a tree", trees, asked)
	}
	if values < asked/6 {
		t.Errorf("only %d of %d answers have values", values, asked)
	}
}
