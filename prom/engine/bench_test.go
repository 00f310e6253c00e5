package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// discard is a Sink that keeps nothing.
type discard struct{}

func (discard) Begin(parser.ValueType) error { return nil }
func (discard) Sample(*promql.Sample) error  { return nil }
func (discard) Series(*promql.Series) error  { return nil }
func (discard) Scalar(promql.Scalar) error   { return nil }
func (discard) String(promql.String) error   { return nil }

// BenchmarkRun runs queries over 1,000 series of each metric, of an hour.
func BenchmarkRun(b *testing.B) {
	var points strings.Builder
	bounds := []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"}
	for h := range 1000 {
		for k := range 60 {
			fmt.Fprintf(&points, "a,i=h%d,job=j%d value=%d %d\n", h, h%10, (h*7+k*3)%97, k*60)
			fmt.Fprintf(&points, "b,i=h%d,job=j%d value=%d %d\n", h, h%10, 100+h%5, k*60)
			fmt.Fprintf(&points, "le_bucket,i=h%d,p=p%d,le=%s value=%d %d\n", h/96, h/12%8, bounds[h%12], (h%12+1)*k*3+h%7, k*60)
		}
	}
	e := testEngine(b, points.String(), 0)
	for _, expr := range []string{
		`a{i="h5"}`, `a{i="h5"} / b{i="h5"}`, "1 - a / b", "avg by (job) (1 - a / b)", "clamp_min(a / b, 0)",
		"sum by (job) (rate(a[5m])) / sum by (job) (rate(b[5m]))", "sum(a) / count(a)", "a > bool b", "a * on (i) group_left () b",
		"a and on (i) b > 102", "a or b", "sum by (job) (abs(a))", "histogram_quantile(0.99, sum by (le, p) (rate(le_bucket[5m])))",
		"max_over_time((a / b)[10m:1m])", "count by (job) (a == 1)", "sum(sum_over_time(a[30m]))",
	} {
		for _, step := range []time.Duration{0, 15 * time.Second} {
			req := Request{Access: Access{DB: "p"}, Expr: expr, Start: time.Unix(3540, 0), End: time.Unix(3540, 0), Step: step}
			if step > 0 {
				req.Start = time.Unix(0, 0)
			}
			b.Run(fmt.Sprintf("%s/step=%v", strings.ReplaceAll(expr, " ", ""), step), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Run(b.Context(), &req, discard{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
