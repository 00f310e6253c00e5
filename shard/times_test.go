package shard

import (
	"math/rand/v2"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/shard/plan"
	"tsdbd/tsm"
)

// scrapes applies n rows to each of the first series, all at the same irregular times.
func (b *bench) scrapes(series, n int, from int64) {
	times := make([]int64, n)
	for i := range times {
		times[i] = from + int64(i)*100 + b.r.Int64N(40)
	}
	for _, sr := range b.series[:series] {
		var batch point.Batch
		b.sequence++
		for _, at := range times {
			b.row(&batch, sr, at, 2)
		}
		b.s.Apply(b.sequence, batch.Rows, batch.Values, batch.Strings)
	}
}

// shared returns how many chunks of the files refer to times of another one.
func (b *bench) shared() (n int) {
	b.t.Helper()
	v := b.s.View()
	defer v.Release()
	for _, f := range v.set.files {
		var s tsm.Series
		var c tsm.Chunk
		for i := range f.reader.Len() {
			if err := f.reader.Load(i, &s); err != nil {
				b.t.Fatal(err)
			}
			for k := range s.Chunks {
				if err := f.reader.Chunk(&s, k, &c); err != nil {
					b.t.Fatal(err)
				}
				encodings, err := c.Encodings(nil)
				if err != nil {
					b.t.Fatal(err)
				}
				if encodings[0].Name == tsm.SharedTimes {
					n++
				}
			}
		}
		if err := f.reader.Verify(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	return n
}

// TestSharedTimesAgainstModel writes scrapes to many series, and to some of them late rows
// and deletes, also of the series that has the times of the others. Flushes, merges, a rebuilt
// manifest, moves and restarts give the rows of the model, and merges share again.
func TestSharedTimesAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 36))
	for round := range max(testseed.Rounds(6), 3) {
		b := newBench(t, r)
		b.s.maxFile, b.s.cells = plan.MaxFileBytes, cacheCells
		b.addSeries(12)
		for k := range 5 {
			b.scrapes(12, 80, int64(k)*8000)
			b.flush()
		}
		if n := b.shared(); n < 5*11 {
			t.Errorf("%d chunks share times after the flushes", n)
		}
		b.put(3, 20, 4000, 7) // late rows
		for _, series := range []int{0, 5} {
			from := r.Int64N(30_000)
			b.hide(series, model.TimeRange{Min: from, Max: from + r.Int64N(9000)})
		}
		if round%2 == 0 {
			b.hide(1, model.AllTime)
		}
		b.checks()
		b.reopen()
		b.checks()
		b.s.maxFile = plan.MaxFileBytes
		b.compact(true)
		if n := b.shared(); n < 7 {
			t.Errorf("%d chunks share times after the merge", n)
		}
		b.checks()
		b.loseManifest()
		b.reopen()
		b.checks()
		b.move(b.series[6:7], "moved")
		b.reopen()
		b.compact(true)
		if n := b.waiting(); n > 0 {
			t.Errorf("%d moves wait", n)
		}
		b.checks()
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
