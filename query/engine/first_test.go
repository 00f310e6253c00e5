package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
)

// TestFirstWindows holds statements with LIMIT, which may fold the first
// windows only, to the first rows of the same statements without.
func TestFirstWindows(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 11))
	m := scantest.New()
	m.ShardSpan = 24 * 3600e9
	m.ChunkRows = 1 + rnd.IntN(30)
	modelData(rnd, m, true)
	ask := func(q string) []*result.Series {
		t.Helper()
		res, err := collectSelect(context.Background(), m, q, Options{Workers: 1 + rnd.IntN(3), Now: time.Unix(1500400000, 0)})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, q, err)
		}
		var out []*result.Series
		for _, r := range res {
			out = append(out, r.Series...)
		}
		return out
	}
	for range 300 {
		fields := []string{"count(f)", "mean(f), max(i)", "count(i), count(f)", "stddev(f)", "max(f), i", "sum(i) + count(f)", "first(i)", "count(nobody), max(f)"}[rnd.IntN(8)]
		bounds := []string{"", "WHERE time < 1500200000s", "WHERE time >= 1499990000s AND time < 1500200000s", "WHERE f > 3", "WHERE time >= 1500050000s AND time < 1500100000s"}[rnd.IntN(5)]
		group := []string{"", ", host", ", nothing", ", *"}[rnd.IntN(4)]
		fill := []string{"none", "null", "7", "previous", "linear"}[rnd.IntN(5)]
		every := []string{"1m", "7m", "1h"}[rnd.IntN(3)]
		q := fmt.Sprintf("SELECT %s FROM m %s GROUP BY time(%s)%s fill(%s)", fields, bounds, every, group, fill)
		limit, offset := 1+rnd.IntN(20), rnd.IntN(3)*rnd.IntN(9)
		var want []*result.Series
		for _, s := range ask(q) {
			lo, hi := result.RowWindow(s.Rows, limit, offset)
			if lo >= hi {
				continue
			}
			c := *s
			c.Values = nil
			for _, v := range s.Values {
				if v.Type != model.Unknown {
					v = v.Slice(lo, hi)
				}
				c.Values = append(c.Values, v)
			}
			c.Rows = hi - lo
			want = append(want, &c)
		}
		short := fmt.Sprintf("%s LIMIT %d OFFSET %d", q, limit, offset)
		if got := ask(short); !slices.Equal(seriesTexts(got), seriesTexts(want)) {
			t.Errorf("seed %d:\n%s\n gives %.600q\nwant  %.600q", seed, short, seriesTexts(got), seriesTexts(want))
		}
	}
}
