package shard

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/tsm"
)

// TestWideSeries writes rows that have a field each of very many: a table of
// all rows and all fields would be a thousand times what was written. No flush
// makes one, and chunks get fewer rows.
func TestWideSeries(t *testing.T) {
	b := fixed(t)
	const n = 4500
	flush := func() {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.flush()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 60<<20 { // 32 MB; with such a table 150
			t.Errorf("flush of %d rows of a field each allocated %d bytes", n/2, got)
		}
	}
	field := func(i int) column.Field { return column.Field{Key: fmt.Sprintf("f%05d", i), Type: model.Integer} }
	for half := range 2 {
		var batch point.Batch
		b.sequence++
		for i := half; i < n; i += 2 {
			l := b.table.Layout("m", []column.Field{field(i)})
			batch.Rows = append(batch.Rows, point.Row{Series: b.series[0], Layout: l, Time: int64(i), First: uint32(len(batch.Values))})
			batch.Values = append(batch.Values, uint64(i))
		}
		b.s.Apply(b.sequence, batch.Rows, batch.Values, nil)
		flush()
	}
	read := func() {
		t.Helper()
		v := b.s.View()
		defer v.Release()
		req := scan.Request{Measurement: "m", Series: roaring.BitmapOf(uint32(b.series[0].ID())), Range: model.AllTime}
		for i := 0; i < n; i += 7 {
			req.Fields = append(req.Fields, field(i).Key)
		}
		cur, err := v.Scan(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, ok := cur.NextSeries(); ok; _, ok = cur.NextSeries() {
			for ch := cur.NextChunk(); ch != nil; ch = cur.NextChunk() {
				ts, err := ch.Times()
				if err != nil {
					t.Fatal(err)
				}
				for i, at := range ts {
					col, err := ch.Column(int(at) / 7)
					if err != nil {
						t.Fatal(err)
					}
					if at != int64(7*rows) || !col.IsValid(i) || col.Ints[i] != at {
						t.Fatalf("row %d at %d, valid %v", rows, at, col.IsValid(i))
					}
					rows++
				}
			}
		}
		if want := (n + 6) / 7; rows != want || cur.Err() != nil {
			t.Fatalf("%d rows, want %d: %v", rows, want, cur.Err())
		}
	}
	read()
	b.compact(true)
	read()
	v := b.s.View()
	defer v.Release()
	src := v.set.source(t.Context(), 0)
	if err := src.load(0); err != nil {
		t.Fatal(err)
	}
	for _, e := range src.series.Chunks {
		if most := tsm.FullChunk(n); e.Rows > most || most >= tsm.ChunkRows {
			t.Errorf("chunk of %d rows of %d fields, want %d at most", e.Rows, n, most)
		}
	}
}
