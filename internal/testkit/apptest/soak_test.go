//go:build linux

package apptest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/figure"
)

var soakTime = flag.Duration("soak-time", 10*time.Second, "how long TestSoak runs")

// TestSoak has a server under a load that does not change, whose rows expire as fast as
// new ones come. Its memory, open files, goroutines and disk must stay as they are after the first
// third.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{
		"TSDBD_HTTP_PPROF_ENABLED=true", "TSDBD_DATA_FLUSH_SIZE=1MiB", "TSDBD_DATA_FLUSH_IDLE=1s", "TSDBD_DATA_COMPACT_AFTER=1s",
		"TSDBD_DATA_WAL_SEGMENT_SIZE=1MiB", "TSDBD_DATA_WAL_MAX_SIZE=8MiB", "GOMEMLIMIT=256MiB",
	}
	s.Restart()
	s.Query("", "CREATE DATABASE db WITH DURATION INF SHARD DURATION 1h NAME autogen")
	took := *soakTime
	const groups = 4 // hours that have rows
	begin := time.Now()
	var samples []soakSample
	rows := int64(0)
	for step := int64(0); time.Since(begin) < took || len(samples) < 6; step++ {
		// Rows of the hour that begins, and the hour that ended groups ago goes.
		hour := step / 10
		var b strings.Builder
		for i := range int64(1000) {
			at := hour*3600*1e9 + (step%10)*360*1e9 + i%20*1e9
			fmt.Fprintf(&b, "m,host=h%d,hour=%d v=%di,f=%d.5,s=\"row %d\" %d\n", i/20, hour%3, i*step, i%100, i%7, at)
		}
		status, body, err := s.Do(context.Background(), http.MethodPost, "/write", url.Values{"db": {"db"}}, b.String())
		if err != nil || status != http.StatusNoContent && status != http.StatusServiceUnavailable {
			t.Fatalf("write: %d %s %v", status, body, err)
		}
		rows += 1000
		s.Query("db", fmt.Sprintf("SELECT max(v), mean(f) FROM m WHERE time >= %d AND time < %d GROUP BY time(10m), host", (hour-1)*3600*1e9, (hour+1)*3600*1e9))
		if step%10 == 9 && hour >= groups {
			s.Query("db", fmt.Sprintf("DELETE FROM m WHERE time < %d", (hour-groups)*3600*1e9+1800*1e9)) // half of the shard that goes
			shard := oldestShard.FindStringSubmatch(s.Query("db", "SHOW SHARDS"))
			if shard == nil {
				t.Fatal("there is no shard")
			}
			s.Query("db", "DROP SHARD "+shard[1])
		}
		if hour > groups && step%10 == 5 {
			samples = append(samples, s.soak(t))
		}
	}
	third := len(samples) / 3
	if third == 0 {
		t.Fatalf("%d samples", len(samples))
	}
	early, late := most(samples[:third]), most(samples[len(samples)-third:])
	figure.Report(t, "the same load for long, whose old rows go: memory, open files, goroutines and disk of the first and last third",
		figure.Count{N: int(time.Since(begin).Round(time.Minute).Minutes()), Of: "minutes"}, figure.Count{N: int(rows), Of: "rows"},
		figure.Count{N: int(early.memory >> 20), Of: fmt.Sprintf("to %d MiB", late.memory>>20)}, figure.Count{N: int(early.files), Of: fmt.Sprintf("to %d files", late.files)},
		figure.Count{N: int(early.goroutines), Of: fmt.Sprintf("to %d goroutines", late.goroutines)}, figure.Count{N: int(early.disk >> 10), Of: fmt.Sprintf("to %d KiB on disk", late.disk>>10)})
	t.Logf("%d samples; memory %d to %d MiB, files %d to %d, goroutines %d to %d, disk %d to %d KiB", len(samples),
		early.memory>>20, late.memory>>20, early.files, late.files, early.goroutines, late.goroutines, early.disk>>10, late.disk>>10)
	for _, c := range []struct {
		what         string
		before, over int64
		after        int64
	}{
		{"bytes of memory", early.memory, early.memory/4 + 16<<20, late.memory},
		{"open files", early.files, 20, late.files},
		{"goroutines", early.goroutines, 20, late.goroutines},
		{"bytes on disk", early.disk, early.disk/4 + 4<<20, late.disk},
	} {
		if c.after > c.before+c.over {
			t.Errorf("%d %s in the last third, %d in the first", c.after, c.what, c.before)
		}
	}
	s.Stop()
}

// oldestShard finds the first shard of db in the answer of SHOW SHARDS.
var oldestShard = regexp.MustCompile(`\[(\d+),"db",`)

// soakSample is what a process takes.
type soakSample struct{ memory, files, goroutines, disk int64 }

func (s *Server) soak(t *testing.T) (x soakSample) {
	t.Helper()
	x.memory = s.Status("RssAnon")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	x.files = int64(len(files))
	_, body, err := s.Do(context.Background(), http.MethodGet, "/debug/pprof/goroutine", url.Values{"debug": {"1"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(body, "goroutine profile: total ")
	line, _, _ := strings.Cut(rest, "\n")
	if x.goroutines, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64); err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(s.Dir, func(_ string, e os.DirEntry, err error) error { // files go meanwhile
		if err == nil {
			if info, err := e.Info(); err == nil && !e.IsDir() {
				x.disk += info.Size()
			}
		}
		return nil
	})
	return x
}

// most returns the largest of each figure.
func most(samples []soakSample) (m soakSample) {
	for _, x := range samples {
		m.memory, m.files = max(m.memory, x.memory), max(m.files, x.files)
		m.goroutines, m.disk = max(m.goroutines, x.goroutines), max(m.disk, x.disk)
	}
	return m
}
