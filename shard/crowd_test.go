package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/shard/moves"
)

// addSeries adds series of a measurement m with so many values of the tag h.
func (b *bench) addSeries(n int) {
	b.t.Helper()
	for len(b.series) < n {
		b.series = append(b.series, b.named(fmt.Sprintf("m,h=%d", len(b.series))))
	}
}

// named returns a series with an id.
func (b *bench) named(key string) *point.Series {
	b.t.Helper()
	sr, ids := point.NewSeries(key), make([]model.SeriesID, 1)
	if err := b.sf.Claim([]string{key}, ids); err != nil {
		b.t.Fatal(err)
	}
	b.sf.Confirm(ids)
	sr.SetID(ids[0])
	return sr
}

// move gives the rows of series to the series m,h=target, in the shard and in the model.
func (b *bench) move(sources []*point.Series, target string) {
	b.t.Helper()
	b.sequence++
	change := model.Change{Measurement: "m", To: "m", Set: model.Tags{{Key: "h", Value: target}}}
	i := slices.IndexFunc(b.series, func(sr *point.Series) bool { return sr.Key() == "m,h="+target })
	if i < 0 {
		i, b.series = len(b.series), append(b.series, b.named("m,h="+target))
	}
	to := b.series[i].ID()
	slices.SortFunc(sources, func(x, y *point.Series) int { return cmp.Compare(x.Key(), y.Key()) })
	rows := b.want.rows[to]
	if rows == nil {
		rows = map[int64]map[int]uint64{}
		b.want.rows[to] = rows
	}
	var pairs moves.Builder
	for _, sr := range sources {
		if sr.ID() == to {
			continue
		}
		pairs.Add(sr.ID(), to)
		for at, values := range b.want.rows[sr.ID()] {
			if rows[at] == nil {
				rows[at] = map[int]uint64{}
			}
			for f, v := range values {
				rows[at][f] = v
			}
		}
		delete(b.want.rows, sr.ID())
	}
	p, err := pairs.Pairs()
	if err != nil {
		b.t.Fatal(err)
	}
	list := []*moves.Move{{Sequence: b.sequence, Change: change, Pairs: p}}
	targets, err := b.s.PrepareMove(list, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.s.Move(list, targets)
}

// few applies an entry with up to 40 rows of a series.
func (b *bench) few() {
	var batch point.Batch
	b.sequence++
	sr, at := b.series[b.r.IntN(len(b.series))], int64(b.r.IntN(100))
	for range 1 + b.r.IntN(40) {
		b.row(&batch, sr, at, 1+b.r.IntN(1<<len(modelFields)-1))
		at += 1 + int64(b.r.IntN(5))
	}
	b.s.Apply(b.sequence, batch.Rows, batch.Values, batch.Strings)
}

// some returns some of the series.
func (b *bench) some() (out []*point.Series) {
	for _, sr := range b.series {
		if b.r.IntN(4) > 0 {
			out = append(out, sr)
		}
	}
	return out
}

// TestCrowdAgainstModel moves very many series, as the shard sees it, to few ones, among
// writes, deletes, flushes and merges, and compares scans with a map.
func TestCrowdAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 9))
	crowded := 0
	for range 6 {
		b := newBench(t, r)
		b.addSeries(14)
		b.s.few, b.s.cells = 1+r.IntN(4), 20+r.IntN(300)
		for range 30 {
			switch k := r.IntN(12); {
			case k < 5:
				for range 6 {
					b.few()
				}
			case k < 6:
				b.delete()
			case k < 8:
				b.move(b.some(), fmt.Sprint("t", r.IntN(3)))
			case k < 10:
				if snap := b.s.Freeze(b.sequence); snap != nil {
					if err := b.s.Flush(t.Context(), snap); err != nil {
						t.Fatal(err)
					}
				}
			default:
				if _, err := b.s.Compact(t.Context(), k == 10); err != nil {
					t.Fatal(err)
				}
			}
			b.check()
			crowded += b.checkCrowds()
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if crowded == 0 {
		t.Error("no series was crowded")
	}
}

// checkCrowds compares what a view says of series with what it says where none of them is
// crowded. It returns the number of crowded series.
func (b *bench) checkCrowds() (n int) {
	b.t.Helper()
	v := b.s.View()
	defer v.Release()
	few := b.s.few
	defer func() { b.s.few = few }()
	for _, sr := range b.series {
		req := scan.Request{Measurement: "m", Series: roaring.BitmapOf(uint32(sr.ID())), Range: model.AllTime, Fields: []string{"f", "i", "s"}}
		var said [2]string
		for i, few := range []int{few, 1 << 30} {
			b.s.few = few
			p := v.pieces(b.t.Context(), model.AllTime)
			p.measurement = "m"
			has, err := p.hasRows(sr.ID())
			if err != nil {
				b.t.Fatal(err)
			}
			cost, err := v.Cost(req)
			if err != nil {
				b.t.Fatal(err)
			}
			said[i] = fmt.Sprint(has, cost)
			if times, ok := v.TimeBounds(req.Series); len(b.want.rows[sr.ID()]) > 0 {
				for at := range b.want.rows[sr.ID()] {
					if !ok || !times.Contains(at) {
						b.t.Fatalf("series %d at %d is not within %v", sr.ID(), at, times)
					}
				}
			}
			if p.crowded {
				n++
			}
		}
		if said[0] != said[1] {
			b.t.Fatalf("series %d: %s, want %s", sr.ID(), said[0], said[1])
		}
	}
	return n
}

// TestCrowdIsBounded reads a series that very many have become: the cursor asks its
// context, takes memory only after it has charged it, and gives it back.
func TestCrowdIsBounded(t *testing.T) {
	b := fixed(t)
	const n = 2000
	b.addSeries(n)
	for i := range n {
		b.put(i, 1, int64(i), 1)
		if i == n/2 {
			b.flush()
		}
	}
	b.move(slices.Clone(b.series), "all")
	v := b.s.View()
	defer v.Release()
	req := scan.Request{Measurement: "m", Series: roaring.BitmapOf(uint32(b.series[n].ID())), Range: model.AllTime, Fields: []string{"f"}}
	read := func(ctx context.Context, req scan.Request) (rows int, err error) {
		c, err := v.Scan(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
			for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
				rows += ch.Len()
			}
		}
		if sources := len(c.(*cursor).sources); sources > 2*maxPlaces {
			t.Errorf("%d sources are open", sources)
		}
		return rows, c.Err()
	}
	var held, most int64
	req.Hold = func(bytes int64) error {
		held += bytes
		most = max(most, held)
		return nil
	}
	if rows, err := read(t.Context(), req); rows != n || err != nil {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if held != 0 || most < n*16 || most > n*100 {
		t.Errorf("%d bytes were charged for %d rows, %d of them are not given back", most, n, held)
	}
	limit := errors.New("no memory")
	taken := int64(0)
	req.Hold = func(bytes int64) error {
		if taken += bytes; taken > most/2 {
			return limit
		}
		return nil
	}
	if rows, err := read(t.Context(), req); rows != 0 || !errors.Is(err, limit) {
		t.Errorf("with little memory: %d rows, %v", rows, err)
	}
	if taken != 0 {
		t.Errorf("%d bytes are not given back", taken)
	}
	req.Hold = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rows, err := read(ctx, req); rows != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %d rows, %v", rows, err)
	}
}
