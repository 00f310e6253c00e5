package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
)

// everyFold are calls of each aggregate that is folded, but for those whose answers tell
// rows of equal time apart.
var everyFold = []string{
	"count(x)", "sum(x)", "mean(x)", "min(x)", "max(x)", "spread(x)", "stddev(x)", "mode(x)", "distinct(x)", "count(distinct(x))",
	"sum_hll(x)", "mean(x), max(x), sum(y) / count(y)",
}

// TestPassedColumns: an aggregate over a subquery that computes columns gives what it gives
// over a measurement into which the same columns were computed point by point.
func TestPassedColumns(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 41))
	for _, c := range []struct {
		expression string
		of         func(p *modelPoint) (float64, bool)
		whole      bool // of integers
	}{
		{"f", func(p *modelPoint) (float64, bool) { return p.f, p.hasF }, false},
		{"i", func(p *modelPoint) (float64, bool) { return float64(p.i), p.hasI }, true},
		{"f * 2 + i", func(p *modelPoint) (float64, bool) { return p.f*2 + float64(p.i), p.hasF && p.hasI }, false},
		// A quotient of integers is one to an outer statement.
		{"i / 4", func(p *modelPoint) (float64, bool) { return float64(p.i / 4), p.hasI }, true},
		{"i / (f - f) + i / 3.5", func(p *modelPoint) (float64, bool) {
			return float64(p.i) / 3.5, p.hasI && p.hasF && !math.IsInf(p.f, 0)
		}, false},
		{"(i * i) % 7", func(p *modelPoint) (float64, bool) { return float64(p.i * p.i % 7), p.hasI }, true},
		{"sqrt(f)", func(p *modelPoint) (float64, bool) { return math.Sqrt(p.f), p.hasF && p.f >= 0 }, false},
		{"pow(i, 2) - f", func(p *modelPoint) (float64, bool) {
			x := math.Pow(float64(p.i), 2) - p.f
			return x, p.hasF && p.hasI && x == x
		}, false},
	} {
		m := scantest.New()
		m.ShardSpan, m.ChunkRows = 24*3600e9, 1+rnd.IntN(30)
		points := modelData(rnd, m, true)
		for i := range points {
			p := &points[i]
			vals := map[string]scantest.Value{}
			if x, ok := c.of(p); ok && c.whole {
				vals["x"] = scantest.Value{Type: model.Integer, Bits: uint64(int64(x))}
			} else if ok {
				vals["x"] = scantest.Value{Type: model.Float, Bits: math.Float64bits(x)}
			}
			if p.hasI {
				vals["y"] = scantest.Value{Type: model.Integer, Bits: uint64(p.i)}
			}
			if len(vals) > 0 {
				m.Put("d", "autogen", "c,host="+p.host, p.t, vals)
			}
		}
		for _, fn := range everyFold {
			for _, rest := range []string{"", " GROUP BY host", " WHERE time >= 1500000000s AND time < 1500100000s GROUP BY time(1h), host", " WHERE time < 1500100007s GROUP BY time(90m) fill(none) ORDER BY time DESC", " WHERE time >= 1500000000s AND time < 1500100000s GROUP BY time(1h) fill(previous) LIMIT 5"} {
				ask := func(from string) []string {
					res, err := collectSelect(t.Context(), m, "SELECT "+fn+" FROM "+from+rest, Options{Workers: 1 + rnd.IntN(3), Now: time.Unix(1500400000, 0)})
					if err != nil {
						t.Fatal(err)
					}
					var out []string
					for _, r := range res {
						for _, s := range r.Series {
							s.Name = ""
						}
						out = append(out, seriesTexts(r.Series)...)
					}
					return out
				}
				if got, want := ask("(SELECT "+c.expression+" AS x, i AS y FROM m)"), ask("c"); !slices.Equal(got, want) {
					t.Errorf("seed %d: %s of %s%s:\n%.600q, want\n%.600q", seed, fn, c.expression, rest, got, want)
				}
			}
		}
	}
}

// TestPassedRows: a subquery whose rows are read in its place gives what it gives when it
// runs by itself, as one with a LIMIT does, whatever its fields are in each shard.
func TestPassedRows(t *testing.T) {
	m := scantest.New()
	m.ShardSpan, m.ChunkRows, m.Stats = 100e9, 7, true
	m.Create("d", "autogen")
	rnd := rand.New(rand.NewPCG(3, 4))
	var lines string
	for i := range 400 {
		fields := fmt.Sprintf("v=%d", rnd.IntN(16)) // floats, then integers, then none
		switch {
		case i >= 300:
			fields = "w=1"
		case i >= 200:
			fields += "i,s=\"t" + fmt.Sprint(rnd.IntN(9)) + "\",b=" + fmt.Sprint(i%3 == 0)
			if i%5 > 0 {
				fields += ",c=true"
			}
		case i >= 100:
			fields += ".5,w=" + fmt.Sprint(rnd.IntN(5))
		}
		lines += fmt.Sprintf("m,h=%c,k=%d %s %d\n", 'a'+rune(rnd.IntN(3)), rnd.IntN(2), fields, i/4*4)
	}
	m.Write(t, "d", "", "s", lines)
	fns := append([]string{"first(x)", "last(x)", "min(x), max(x)", "top(x, 2)", "percentile(x, 50)", "count(k)", "max(x), y", "last(x), y", "bottom(x, 3), y", "derivative(mean(x), 1s)", "*"}, everyFold...)
	passed := 0
	for _, list := range []string{"v AS x, w AS y", "v * w AS x, w AS y", "s AS x, w AS y", "b AS x, v AS y", "c & b AS x, v AS y", "v + 1 AS x, v / w AS y", "v * 1.5 + w AS x, (v - w) / (v + 1.5) AS y", "none AS x, v AS y", "v AS x, w AS y, k", "-v AS x, h AS y", "v::integer AS x, w AS y"} {
		for _, where := range []string{"", " WHERE v > 10", " WHERE h = 'a' OR w > 1", " WHERE time >= 150s AND time < 280s"} {
			for _, group := range []string{"", ", h"} {
				for _, fn := range fns {
					outer := " WHERE time >= 33s AND time < 390s GROUP BY time(20s)" + group
					if fn == "*" {
						outer = ""
					}
					ask := func(limit string) string {
						res, err := collectSelect(t.Context(), m, "SELECT "+fn+" FROM (SELECT "+list+" FROM m"+where+limit+")"+outer, Options{})
						if err != nil {
							return err.Error()
						}
						var out []string
						for _, r := range res {
							out = append(out, seriesTexts(r.Series)...)
						}
						if out != nil {
							passed++
						}
						return fmt.Sprintf("%q", out)
					}
					if got, want := ask(""), ask(" LIMIT 1000000"); got != want {
						t.Errorf("%s of (%s%s)%s:\n%.600s, want\n%.600s", fn, list, where, outer, got, want)
					}
				}
			}
		}
	}
	if passed < 1000 {
		t.Errorf("%d statements have an answer", passed)
	}
}
