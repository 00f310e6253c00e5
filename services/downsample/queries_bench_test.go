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
