package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/prom"
)

// problem returns an error without the series that it names: those that the engine meets
// first.
func problem(err error) string {
	text, _, _ := strings.Cut(fmt.Sprint(err), ": [")
	return text
}

// TestOperatorsEqualEngine compares random operators with what Prometheus' engine gives:
// statistics have it evaluate everything. Most of them must have a tree.
func TestOperatorsEqualEngine(t *testing.T) {
	var mixed strings.Builder // floats, and histograms from 300 s on
	for at := 15; at < 600; at += 15 {
		if at < 300 {
			fmt.Fprintf(&mixed, "h,g=x,i=1 value=%d %d\n", at, at)
			continue
		}
		h := &histogram.Histogram{Sum: 3, Count: 3, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{3}}
		fmt.Fprintf(&mixed, "h,g=x,i=1 %s=\"%s\" %d\n", prom.HistogramField, prom.AppendHistogram(nil, &prom.Histogram{Int: h}), at)
	}
	e := testEngine(t, testPoints()+mixed.String()+"two,g=x,i=1,z=1 value=3 30\ntwo,g=x,i=1,z=2 value=4 400\ntyped,__type__=gauge,i=1 value=5 100\ntyped,__type__=counter,i=1 value=6 300\ntyped,i=2 value=7 300\n", 0)
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	leaves := []string{
		"a", "b", "two", "rate(a[1m])", `{__name__=~"a|b"}`, `a{i="1"}`, "sum by (g) (a)", "sum(b)", "a offset 1m", "count by (g) (two)",
		"max_over_time(a[2m])", "a @ 100", "topk(1, a)", "nothing", `rate({__name__=~"a|b",i=""}[3m])`, "le_bucket", "-(a)", "typed", "h", "sum by (g) (h)", "a / 0",
	}
	ops := []string{"+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "> bool", "== bool", "<= bool"}
	pairs := []string{"", "", "", "on (g) ", "on () ", "ignoring (i) ", "ignoring (z) ", "on (g, i) ", "ignoring (i, z) "}
	numbers := []string{"0", "1", "100", "-3.5", "NaN", "Inf"}
	var expr func(depth int) string
	expr = func(depth int) string {
		switch r.IntN(3 + depth) {
		case 0:
			return "(" + numbers[r.IntN(len(numbers))] + " " + ops[r.IntN(len(ops))] + " " + expr(depth+2) + ")"
		case 1:
			return "(" + expr(depth+2) + " " + ops[r.IntN(len(ops))] + " " + numbers[r.IntN(len(numbers))] + ")"
		case 2:
			return "(" + expr(depth+2) + " " + ops[r.IntN(len(ops))] + " " + pairs[r.IntN(len(pairs))] + expr(depth+2) + ")"
		}
		return leaves[r.IntN(len(leaves))]
	}
	asked, values := 0, 0
	for range testseed.Rounds(400) {
		text1 := expr(0)
		for _, req := range []Request{
			{Start: time.Unix(30, 0), End: time.Unix(700, 0), Step: 20 * time.Second},
			{Start: time.Unix(301, 0), End: time.Unix(301, 0)},
			{Start: time.Unix(301, 0), End: time.Unix(400, 0), Step: 7 * time.Second, Limit: 1},
		} {
			var got, want text
			req.DB, req.Expr = "p", text1
			err := got.run(e, req)
			req.Stats = true
			wantErr := want.run(e, req)
			if problem(err) != problem(wantErr) || got.Builder.String() != want.Builder.String() {
				t.Fatalf("%s %+v:\ngot  %v\n%s\nwant %v\n%s", text1, req, err, got.Builder.String(), wantErr, want.Builder.String())
			}
			asked++
			if got.Len() > 20 {
				values++
			}
		}
	}
	if values < asked/6 {
		t.Errorf("only %d of %d answers have values", values, asked)
	}
}
