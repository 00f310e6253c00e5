package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan/scantest"
)

// TestSelectRelations checks statements against one another: what must give
// the same rows, does.
func TestSelectRelations(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 7))
	m := scantest.New()
	m.ShardSpan = 24 * 3600e9
	m.ChunkRows = 1 + rnd.IntN(30)
	modelData(rnd, m, false)
	ask := func(q string) []string {
		t.Helper()
		res, err := collectSelect(context.Background(), m, q, Options{Workers: 1 + rnd.IntN(3), Now: time.Unix(1500400000, 0)})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, q, err)
		}
		var out []string
		for _, r := range res {
			out = append(out, seriesTexts(r.Series)...)
		}
		return out
	}
	same := func(a, b string) {
		t.Helper()
		x, y := ask(a), ask(b)
		if !slices.Equal(x, y) {
			t.Errorf("seed %d:\n%s\n gives %.600q\n%s\n gives %.600q", seed, a, x, b, y)
		}
	}
	where := "time >= 1500000000s AND time < 1500100000s"
	for _, fn := range []string{"count(f)", "sum(i)", "mean(f)", "min(f)", "max(i)", "spread(f)", "median(f)", "stddev(i)", "mode(i)", "first(f)", "last(i)", "percentile(f, 75)", "integral(f)", "difference(f)", "derivative(i, 1m)", "cumulative_sum(i)", "moving_average(f, 3)", "elapsed(f, 1s)", "distinct(i)", "count(distinct(i))"} {
		for _, group := range []string{"", " GROUP BY host"} {
			// A subquery that changes nothing.
			same("SELECT "+fn+" FROM m WHERE "+where+group, "SELECT "+fn+" FROM (SELECT f, i FROM m) WHERE "+where+group)
			same("SELECT "+fn+" FROM m WHERE "+where+" AND f > 0"+group, "SELECT "+fn+" FROM (SELECT f, i FROM m WHERE f > 0) WHERE "+where+group)
		}
		same("SELECT "+fn+" FROM m WHERE host = 'h1'", "SELECT "+fn+" FROM m WHERE host =~ /^h1$/")
		same("SELECT "+fn+" FROM m", "SELECT "+fn+" FROM m WHERE host = 'h0' OR host != 'h0'")
		same("SELECT "+fn+" FROM m", "SELECT "+fn+" FROM m WHERE f > -1000000 OR i > -1000000 OR host = 'none'")
	}
	for _, fn := range []string{"count(f)", "sum(i)", "mean(f)", "max(i)", "median(f)", "first(f)", "percentile(f, 75)"} {
		for _, fill := range []string{"none", "null", "0", "previous", "linear"} {
			q := "SELECT " + fn + " FROM m WHERE " + where + " GROUP BY time(1h), host fill(" + fill + ")"
			same(q, "SELECT "+fn+" FROM (SELECT f, i FROM m) WHERE "+where+" GROUP BY time(1h), host fill("+fill+")")
			// LIMIT gives the first rows of each series.
			same(q+" LIMIT 1000000", q)
			if fill == "none" || fill == "null" || fill == "0" {
				// Descending is ascending turned round.
				up, down := ask(q), ask(q+" ORDER BY time DESC")
				slices.Sort(up)
				slices.Sort(down)
				if !slices.Equal(up, down) {
					t.Errorf("seed %d: %s: descending gives other rows", seed, q)
				}
			}
		}
	}
	// Pages put together are the whole.
	for _, q := range []string{"SELECT f, i, host FROM m", "SELECT f FROM m ORDER BY time DESC", "SELECT mean(f) FROM m WHERE " + where + " GROUP BY time(1h) fill(none)", "SELECT mean(f), max(i) FROM m WHERE " + where + " GROUP BY time(1h) fill(0)"} {
		whole := ask(q)[1:]
		var paged []string
		for offset := 0; ; offset += 7 {
			page := ask(fmt.Sprintf("%s LIMIT 7 OFFSET %d", q, offset))
			if len(page) == 0 {
				break
			}
			paged = append(paged, page[1:]...)
		}
		if !slices.Equal(whole, paged) {
			t.Errorf("seed %d: %s: %d rows, in pages %d", seed, q, len(whole), len(paged))
		}
	}
}
