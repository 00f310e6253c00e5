package inspect

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/model/point"
	"tsdbd/shard/manifest"
	"tsdbd/store"
)

// The benchmarks below write a workload and report, for each encoding of each
// type, the blocks and bytes after the last flush and after the merges of the
// shards at rest. make bench-encodings puts them into docs/bench/encodings.md.

// BenchmarkTelegrafEncodings is an hour of 50 hosts.
func BenchmarkTelegrafEncodings(b *testing.B) {
	g := load.NewAgent(50, 360, 1_700_000_000/3600*3600)
	benchEncodings(b, func(dst []byte) []byte {
		for len(dst) < 1<<20 {
			var more bool
			if dst, more = g.Next(dst); !more {
				break
			}
		}
		return dst
	})
}

// BenchmarkScrapeEncodings is eleven minutes of four targets of Prometheus.
func BenchmarkScrapeEncodings(b *testing.B) {
	g := load.NewScrape(4, 1, 220, 1_700_000_000/3600*3600)
	benchEncodings(b, func(dst []byte) []byte {
		dst, _ = g.Next(dst)
		return dst
	})
}

func BenchmarkSeedEncodings(b *testing.B) {
	g := load.NewSeed()
	benchEncodings(b, func(dst []byte) []byte {
		dst, _ = g.Next(dst, 10_000)
		return dst
	})
}

func BenchmarkDevopsEncodings(b *testing.B) {
	g := load.NewDevops(load.DevopsHosts, load.DevopsSteps)
	benchEncodings(b, func(dst []byte) []byte {
		dst, _ = g.Next(dst, 10_000)
		return dst
	})
}

// restTime is how long files do not change when nothing is left to merge.
const restTime = 3 * time.Second

func benchEncodings(b *testing.B, next func([]byte) []byte) {
	dir := b.TempDir()
	st := testStore(b, dir)
	table, err := st.Table("d")
	if err != nil {
		b.Fatal(err)
	}
	var p lineproto.Parser
	var batch point.Batch
	for lines := next(nil); len(lines) > 0; lines = next(lines[:0]) {
		batch.Reset()
		if _, err := p.Parse(&batch, table, lines, lineproto.Options{}); err != nil {
			b.Fatal(err)
		}
		if err := st.Write(context.Background(), "d", "", &batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	flushed, err := Encodings(vfs.OS, dir)
	if err != nil {
		b.Fatal(err)
	}
	if st, err = store.Open(dir, store.Options{RetentionInterval: -1, CompactAfter: time.Millisecond}); err != nil {
		b.Fatal(err)
	}
	for names, since := []string(nil), time.Now(); time.Since(since) < restTime; time.Sleep(restTime / 10) {
		if now := shardFiles(b, dir); !slices.Equal(now, names) {
			names, since = now, time.Now()
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	atRest, err := Encodings(vfs.OS, dir)
	if err != nil {
		b.Fatal(err)
	}
	reportEncodings(b, flushed, atRest)
}

// shardFiles lists the TSM files that manifests name.
func shardFiles(b *testing.B, dir string) (names []string) {
	shards, err := filepath.Glob(filepath.Join(dir, "db-*", "shard-*"))
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range shards {
		m, err := manifest.Read(vfs.OS, s)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range m.TSM {
			names = append(names, s+"/"+f.Name)
		}
	}
	return names
}

func reportEncodings(b *testing.B, flushed, atRest *EncodingsReport) {
	type pair struct{ flushed, atRest Encoding }
	rows := map[string]*pair{}
	var names []string
	row := func(e Encoding) *pair {
		name := e.Type + "/" + strings.ReplaceAll(e.Encoding, " ", "_")
		if rows[name] == nil {
			rows[name] = &pair{}
			names = append(names, name)
		}
		return rows[name]
	}
	for _, e := range flushed.Encodings {
		row(e).flushed = e
	}
	for _, e := range atRest.Encodings {
		row(e).atRest = e
	}
	slices.Sort(names)
	total := pair{flushed: Encoding{Values: flushed.Values, Bytes: flushed.Bytes}, atRest: Encoding{Values: atRest.Values, Bytes: atRest.Bytes}}
	for _, name := range names {
		p := rows[name]
		report(b, name, &p.flushed, &p.atRest)
		total.flushed.Blocks += p.flushed.Blocks
		total.atRest.Blocks += p.atRest.Blocks
	}
	report(b, "all_files", &total.flushed, &total.atRest)
}

func report(b *testing.B, name string, flushed, atRest *Encoding) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(flushed.Blocks), "blocks-flushed")
		b.ReportMetric(float64(flushed.Bytes), "bytes-flushed")
		b.ReportMetric(float64(flushed.Values), "values-flushed")
		b.ReportMetric(float64(atRest.Blocks), "blocks-at-rest")
		b.ReportMetric(float64(atRest.Bytes), "bytes-at-rest")
		b.ReportMetric(float64(atRest.Values), "values-at-rest")
	})
}
