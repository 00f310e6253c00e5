package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/engine/partial"
	"tsdbd/query/result"
)

// lookContext counts how often it was asked whether it has ended since a chunk
// was read last, and ends when it is told to.
type lookContext struct {
	context.Context
	looks, chunks atomic.Int64
	endAtLook     int64 // 0: never
	endAtChunk    int64 // 0: never
	ended         atomic.Bool
	after         atomic.Int64 // chunks read after the end
	cancel        context.CancelFunc
}

func newLookContext(t *testing.T, endAtLook, endAtChunk int64) *lookContext {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &lookContext{Context: ctx, cancel: cancel, endAtLook: endAtLook, endAtChunk: endAtChunk}
}

func (c *lookContext) Err() error {
	if n := c.looks.Add(1); c.endAtLook > 0 && n >= c.endAtLook {
		c.end()
	}
	return c.Context.Err()
}

func (c *lookContext) end() {
	c.cancel()
	c.ended.Store(true)
}

// lookStore tells a lookContext of every chunk.
type lookStore struct {
	*scantest.Store
	ctx *lookContext
}

func (s *lookStore) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := s.Store.View(db, rp, r)
	return &lookView{v, s.ctx}, err
}

type lookView struct {
	scan.View
	ctx *lookContext
}

func (v *lookView) Shards() []scan.Shard {
	shards := v.View.Shards()
	for i, s := range shards {
		shards[i] = &lookShard{s, v.ctx}
	}
	return shards
}

type lookShard struct {
	scan.Shard
	ctx *lookContext
}

func (s *lookShard) Charged(charge func(int64) error) scan.Shard {
	return &lookShard{s.Shard.Charged(charge), s.ctx}
}

func (s *lookShard) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	cur, err := s.Shard.Scan(ctx, req)
	return &lookCursor{cur, s.ctx}, err
}

type lookCursor struct {
	scan.Cursor
	ctx *lookContext
}

func (c *lookCursor) NextChunk() scan.Chunk {
	chunk := c.Cursor.NextChunk()
	if chunk == nil {
		return nil
	}
	c.ctx.looks.Store(0)
	if c.ctx.ended.Load() {
		c.ctx.after.Add(1)
	}
	if n := c.ctx.chunks.Add(1); n == c.ctx.endAtChunk {
		c.ctx.end()
	}
	return chunk
}

// stopStore has many rows in one group, of few values.
func stopStore(t *testing.T, rows int) *scantest.Store {
	m := scantest.New()
	m.ChunkRows = 50
	m.Create("d", "autogen")
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "m,h=h%d v=%d,w=%d %d\n", i%4, i*7919%1009, i, i)
	}
	m.Write(t, "d", "", "s", b.String())
	return m
}

var stopQueries = []string{
	"SELECT v FROM m", "SELECT v FROM m WHERE v > 3", "SELECT v * 2 FROM m ORDER BY time DESC", "SELECT * FROM m GROUP BY h",
	"SELECT count(v) FROM m", "SELECT mean(v), stddev(w) FROM m WHERE w > 5 GROUP BY time(100s)", "SELECT last(v), h FROM m",
	"SELECT median(v) FROM m", "SELECT mode(v) FROM m", "SELECT percentile(v, 90) FROM m", "SELECT distinct(v) FROM m",
	"SELECT count(distinct(v)) FROM m GROUP BY time(1h)", "SELECT top(v, 3) FROM m", "SELECT top(v, 500) FROM m", "SELECT top(v, h, 2) FROM m",
	"SELECT sample(v, 5) FROM m", "SELECT integral(v) FROM m", "SELECT derivative(v) FROM m", "SELECT moving_average(v, 10) FROM m",
	"SELECT exponential_moving_average(v, 10) FROM m", "SELECT kaufmans_efficiency_ratio(v, 2000000000, 1) FROM m",
	"SELECT holt_winters(mean(v), 3, 2) FROM m WHERE time >= 0 AND time < 1000s GROUP BY time(10s)",
	"SELECT mean(v) FROM m WHERE time >= 0 AND time < 20000s GROUP BY time(10ms)", "SELECT mean(v), count(w) FROM m WHERE time >= 0 AND time < 4000s GROUP BY time(100ms) fill(linear)",
	"SELECT max(x) FROM (SELECT mean(v) AS x FROM m WHERE time >= 0 AND time < 4000s GROUP BY time(10s), h)", "SELECT x FROM (SELECT v AS x FROM m WHERE w > 5)",
}

// TestStopReading: a statement that is ended while it reads stops within a
// chunk of each worker, and hands out nothing more.
func TestStopReading(t *testing.T) {
	m := stopStore(t, 4000) // 80 chunks
	for _, q := range stopQueries {
		const workers = 3
		ctx := newLookContext(t, 0, 3)
		results := 0
		err := runStop(ctx, m, q, workers, func() { results++ })
		if !errors.Is(err, context.Canceled) || results != 0 {
			t.Errorf("%s: %v after %d results", q, err, results)
		}
		if n := ctx.after.Load(); n > workers {
			t.Errorf("%s read %d chunks after its end", q, n)
		}
	}
}

// TestStopWorking: what goes over many rows that were read looks at the context
// again and again, and ends when that has ended.
func TestStopWorking(t *testing.T) {
	m := stopStore(t, 4000)
	m.ChunkRows = 1000
	for _, q := range []string{
		"SELECT v FROM m", // merged by time
		"SELECT median(v) FROM m", "SELECT mode(v) FROM m", "SELECT percentile(v, 90) FROM m", "SELECT distinct(v) FROM m",
		"SELECT top(v, 2000) FROM m", "SELECT kaufmans_efficiency_ratio(v, 100) FROM m", "SELECT exponential_moving_average(v, 10) FROM m",
		"SELECT mean(v), median(w) FROM m WHERE time >= 0 AND time < 4000s GROUP BY time(1s)",
		"SELECT holt_winters(mean(v), 3, 2) FROM m WHERE time >= 0 AND time < 4000s GROUP BY time(10s)",
	} {
		ctx := newLookContext(t, 0, 0)
		if err := runStop(ctx, m, q, 1, func() {}); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		looks := ctx.looks.Load() // since the last chunk
		if looks < 10 {
			t.Errorf("%s: %d looks at the context while it worked", q, looks)
			continue
		}
		for _, at := range []int64{1, looks / 2, looks - 1} {
			// The chunks set the count to zero: what counts is the work after them.
			ctx := newLookContext(t, at+1, 0)
			results := 0
			err := runStop(ctx, m, q, 1, func() { results++ })
			if !errors.Is(err, context.Canceled) || results != 0 {
				t.Errorf("%s ended at look %d of %d: %v, %d results", q, at, looks, err, results)
			}
		}
	}
}

// TestStopFolding: rows that a subquery hands over at once are folded in blocks,
// with a look at the context, and at the memory, after each.
func TestStopFolding(t *testing.T) {
	m := stopStore(t, 4000)
	looks := func(q string) int64 {
		ctx := newLookContext(t, 0, 0)
		if err := runStop(ctx, m, q, 1, func() {}); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		return ctx.looks.Load()
	}
	for _, order := range []string{"", " ORDER BY time DESC"} {
		alone := looks("SELECT cumulative_sum(v) AS x FROM m" + order)
		for _, call := range []string{"distinct(x)", "mode(x)", "top(x, 3)", "sum_hll(x)", "sum(x)", "first(x)"} {
			q := "SELECT " + call + " FROM (SELECT cumulative_sum(v) AS x FROM m)" + order
			if n := looks(q); n < alone+4000/256 {
				t.Errorf("%s: %d looks at the context, %d of them by the subquery", q, n, alone)
			}
		}
	}
}

func runStop(ctx *lookContext, m *scantest.Store, q string, workers int, emit func()) error {
	stmt, err := parseSelect(m, q)
	if err != nil {
		return err
	}
	opt := Options{Workers: workers, workRows: 256}
	return Select(ctx, stmt, &lookStore{m, ctx}, opt, func(*result.Result) error { emit(); return nil })
}

// TestSortRows: merging sorted blocks is a stable sort.
func TestSortRows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 2))
	for range 500 {
		rows := make([][2]int, rnd.IntN(200))
		for i := range rows {
			rows[i] = [2]int{rnd.IntN(10), i}
		}
		byFirst := func(a, b [2]int) int { return a[0] - b[0] }
		want := slices.Clone(rows)
		slices.SortStableFunc(want, byFirst)
		if got := partial.SortRows(&admission.Stopper{Ctx: t.Context(), Every: 8}, rows, byFirst); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
