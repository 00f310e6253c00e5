package apptest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/load"
)

var (
	telegrafHosts = flag.Int("telegraf-hosts", 10, "hosts of TestTelegrafDay")
	telegrafHours = flag.Int("telegraf-hours", 1, "hours of TestTelegrafDay")
)

// TestTelegrafDay loads what the agents of some hosts send, over four
// connections, with late and repeated points. The numbers of points are the
// generator's at once, after a crash, after compaction and after a restart.
func TestTelegrafDay(t *testing.T) {
	t.Parallel()
	const monday = 1_699_833_600 // half of the data lies before it, in another shard group
	g := load.NewTelegraf(*telegrafHosts, *telegrafHours*360, monday-int64(*telegrafHours)*1800)
	s := New(t)
	s.Env = []string{"TSDBD_DATA_FLUSH_SIZE=512KiB", "TSDBD_DATA_FLUSH_IDLE=500ms", "TSDBD_DATA_COMPACT_AFTER=1s"}
	s.Restart()
	s.Query("", "CREATE DATABASE telegraf")

	batches := make(chan string, 8)
	errs := make(chan error, 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for lines := range batches {
				for {
					stored, err := s.Post(context.Background(), "telegraf", lines)
					if err != nil {
						errs <- err
						return
					}
					if stored {
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	begin := time.Now()
	var buf []byte
	lines := 0
	send := func() bool {
		select {
		case batches <- string(buf):
		case err := <-errs:
			t.Error(err)
			return false
		}
		lines += bytes.Count(buf, []byte{'\n'})
		buf = buf[:0]
		return true
	}
	for {
		var more bool
		buf, more = g.Next(buf)
		if (len(buf) > 200_000 || !more) && len(buf) > 0 && !send() {
			break
		}
		if !more {
			break
		}
	}
	close(batches)
	wg.Wait()
	took := time.Since(begin)
	if t.Failed() {
		t.Fatalf("%s", tail(s.Log()))
	}
	distinct := int64(0)
	for _, n := range g.Points {
		distinct += n
	}
	if int64(lines) <= distinct {
		t.Fatalf("%d lines for %d points: nothing was repeated", lines, distinct)
	}
	check := func(when string) {
		t.Helper()
		for m, field := range map[string]string{"cpu": "usage_idle", "mem": "used", "disk": "used_percent", "net": "bytes_sent", "system": "uptime_format"} {
			got, err := s.Count("telegraf", fmt.Sprintf("SELECT count(%s) FROM %s", field, m))
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if got != g.Points[m] {
				t.Errorf("%s: %d points of %s, want %d", when, got, m, g.Points[m])
			}
		}
	}
	check("loaded")
	s.Kill()
	s.Restart()
	check("after a crash")
	// Flushed, and each shard in one file of data and one of index.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		cached, _ := s.Metric("tsdbd_cache_bytes")
		done, _ := s.Metric("tsdbd_compaction_finished_total")
		open, _ := s.Metric("tsdbd_shard_open")
		files, _ := s.Metric("tsdbd_shard_files")
		if cached < 1<<20 && files <= 2*open {
			t.Logf("%v shards in %v files after %v compactions", open, files, done)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not compacted: %v bytes cached, %v compactions, %v shards, %v files", cached, done, open, files)
		}
	}
	check("after compaction")
	s.Stop()
	s.Restart()
	check("after a restart")
	disk, _ := s.Metric("tsdbd_shard_disk_bytes")
	t.Logf("%d lines, %d points in %v, %.1f bytes per point on disk", lines, distinct, took.Round(time.Millisecond), disk/float64(distinct))
	s.Stop()
}
