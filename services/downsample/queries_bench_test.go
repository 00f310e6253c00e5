package downsample

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/query/downsample"
)

// BenchmarkQueries compares statements over rows of ten seconds with the same over a
// downsample of a minute.
func BenchmarkQueries(b *testing.B) {
	h := &harness{t: b, use: downsample.Complete}
	h.begin()
	h.now = time.Unix(0, 0).Add(24 * time.Hour)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY minutes ON d DURATION INF REPLICATION 1 SHARD DURATION 1d")
	for host := range 50 {
		var lines strings.Builder
		for at := range 8640 {
			fmt.Fprintf(&lines, "m,h=h%d v=%d.5 %d\n", host, (at*7+host)%97, at*10)
		}
		if err := h.load("raw", lines.String()); err != nil {
			b.Fatal(err)
		}
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO minutes EVERY 1m AS mean, max, min, count, sum")
	if err := h.settle(); err != nil {
		b.Fatal(err)
	}
	for _, fields := range []string{"mean(v)", "max(v)", "count(v)", "mean(v), max(v), min(v)"} {
		for _, use := range []string{"rows", "minutes"} {
			b.Run(fields+" of "+use, func(b *testing.B) {
				h.rewrite, h.t = use == "minutes", b
				for b.Loop() {
					h.ask("SELECT " + fields + " FROM m WHERE time >= 0 AND time < 24h GROUP BY time(1h)")
				}
			})
		}
	}
}

// BenchmarkPromQL compares PromQL over samples of a minute with the same over windows of an
// hour: 30 days of 200 series.
func BenchmarkPromQL(b *testing.B) {
	const days, series = 30, 200
	h := &harness{t: b}
	h.begin()
	h.now = time.Unix(0, 0).Add(days*24*time.Hour + 10*time.Minute)
	h.must("CREATE DATABASE d WITH SHARD DURATION 7d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 60d")
	for i := range series {
		var lines strings.Builder
		for at := range days * 24 * 60 {
			fmt.Fprintf(&lines, "m_total,i=%d value=%d %d\n", i, at*(i+3)%1000, at*60)
		}
		if err := h.load("raw", lines.String()); err != nil {
			b.Fatal(err)
		}
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS mean, max, first, last")
	if err := h.settle(); err != nil {
		b.Fatal(err)
	}
	e := h.promql()
	for _, expr := range []string{"max_over_time(m_total[1h])", "sum(avg_over_time(m_total[1d]))", "delta(m_total[1h])"} {
		for _, use := range []downsample.Use{downsample.Off, downsample.Complete} {
			b.Run(fmt.Sprintf("%s/%s", expr, use), func(b *testing.B) {
				h.t = b
				for b.Loop() {
					h.evaluate(e, use, "raw", expr, 24*hourMs, days*24*hourMs, hourMs)
				}
			})
		}
	}
}
