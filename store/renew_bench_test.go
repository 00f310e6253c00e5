package store

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkRenewShard renews a shard of a million series and reports how long nothing is
// applied meanwhile.
func BenchmarkRenewShard(b *testing.B) {
	const series = 1_000_000
	for range b.N {
		b.StopTimer()
		r := newRenewed(b)
		var lines strings.Builder
		for i := range series {
			fmt.Fprintf(&lines, "cpu,host=h%d,core=%d v=1 %d\n", i/16, i%16, i)
			if i%50_000 == 49_999 {
				r.leader.must(r.leader.store.write("db", lines.String()))
				lines.Reset()
			}
		}
		r.other.must(r.other.follow(allEntries))
		r.leader.store.flushAll(b.Context())
		r.other.store.flushAll(b.Context())
		r.harm()
		b.StartTimer() // the files of the other node are copied meanwhile
		var cut time.Time
		r.other.must(r.renew(func() {}, func() { cut = time.Now() }))
		b.ReportMetric(float64(time.Since(cut).Milliseconds()), "ms-held")
	}
}
