package tsm1

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/tsm1test"
)

// BenchmarkRows reads a shard of hosts with ten fields: blocks of 1,000 values at the same
// times, blocks at times of their own, and many series of one value.
func BenchmarkRows(b *testing.B) {
	for _, c := range []struct {
		name                 string
		series, blocks, rows int
		jitter               int64
	}{
		{"full blocks", 100, 4, 1000, 1}, {"own times", 100, 4, 1000, 1e6}, {"short series", 100_000, 1, 1, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			root := b.TempDir()
			dir := filepath.Join(root, "data", "db", "rp", "1")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 1))
			var f tsm1test.File
			for host := range c.series {
				for field := range 10 {
					var blocks []column.Rows
					at, walk := int64(1e18), 50.0
					for range c.blocks {
						v := column.Vector{Type: model.Float}
						var times []int64
						for range c.rows {
							times = append(times, at+r.Int64N(c.jitter))
							at += 10e9
							walk += r.NormFloat64()
							v.Floats = append(v.Floats, math.Round(walk))
						}
						blocks = append(blocks, column.Rows{Times: times, Cols: []column.Vector{v}})
					}
					f.Add(fmt.Sprintf("cpu,datacenter=eu-central-1a,hostname=host_%07d,region=eu", host), fmt.Sprintf("usage_%d", field), blocks...)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "000000001-000000001.tsm"), f.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
			s, err := Open(root, Options{})
			if err != nil {
				b.Fatal(err)
			}
			values := 0
			for b.Loop() {
				rows, err := s.Rows(b.Context(), s.Shards()[0], model.AllTime, nil)
				if err != nil {
					b.Fatal(err)
				}
				for {
					run, err := rows.Next(b.Context())
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					values += run.Len() * len(run.Cols)
				}
				_ = rows.Close()
			}
			if want := b.N * c.series * c.blocks * c.rows * 10; c.jitter == 1 && values != want {
				b.Fatalf("%d values, want %d", values, want)
			}
			b.ReportMetric(float64(values)/b.Elapsed().Seconds(), "values/s")
		})
	}
}
