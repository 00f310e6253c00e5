package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/vfs/vfstest"
)

// TestCompactionRate merges under a bound of bytes per second, and reads the
// backlog and the figures of it as a scrape does.
func TestCompactionRate(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CompactBytesPerSecond = 1 << 20
	s := openTest(t, fs, opt)
	defer s.Close()
	s.create("db")
	r := rand.New(rand.NewPCG(1, 1))
	var start time.Time
	for flush := range 4 {
		start = time.Now() // the fourth flush calls for the merge
		var b strings.Builder
		for i := range 8000 {
			fmt.Fprintf(&b, "m,h=a v=%g %d\n", r.Float64(), flush*8000+i)
		}
		s.must(s.write("db", b.String()))
		s.flushAll(context.Background())
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	figure := func(name string) float64 {
		t.Helper()
		all, err := registry.Gather()
		s.must(err)
		sum, found := 0.0, false
		for _, f := range all {
			if f.GetName() == name {
				for _, m := range f.GetMetric() {
					sum, found = sum+m.GetGauge().GetValue()+m.GetCounter().GetValue(), true
				}
			}
		}
		if !found {
			t.Fatalf("no %s", name)
		}
		return sum
	}
	// The store's own loop may have merged already.
	for figure("tsdbd_compaction_queue_files") > 0 && time.Since(start) < time.Minute {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(start)
	for _, e := range s.entries() {
		s.mergeAll(e, false)
	}
	if n := figure("tsdbd_compaction_merges_total"); n != 1 {
		t.Errorf("%v merges, want 1", n)
	}
	bytes := figure("tsdbd_compaction_bytes_read_total") + figure("tsdbd_compaction_bytes_written_total")
	if took < time.Duration((bytes-256<<10)/(1<<20)*float64(time.Second)) {
		t.Errorf("%.0f bytes at 1 MiB a second took %v", bytes, took)
	}
	if bytes < 200<<10 || figure("tsdbd_compaction_queue_files") != 0 || figure("tsdbd_flush_bytes_total") == 0 {
		t.Errorf("%.0f bytes read and written, %v files queued", bytes, figure("tsdbd_compaction_queue_files"))
	}
	t.Logf("%.0f bytes in %v", bytes, took)
}
