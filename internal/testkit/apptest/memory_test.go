package apptest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var memoryTime = flag.Duration("memory-time", 4*time.Second, "how long TestMemoryLimit writes")

// memoryCgroup makes a cgroup (version 1) with a memory limit and returns the
// wrapping command line that joins it, or skips.
func memoryCgroup(t *testing.T, limit int64) (dir string, wrap []string) {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/sys/fs/cgroup/memory", "tsdbd-apptest-")
	if err != nil {
		t.Skipf("no memory cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if os.Remove(dir) == nil { // the killed process leaves a moment later
				return
			}
		}
		t.Errorf("%s is left", dir)
	})
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0o600); err != nil {
		t.Skipf("no memory limit can be set: %v", err)
	}
	return dir, []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}
}

// TestMemoryLimit writes as fast as it can, new series too, and asks for all
// of it at the same time, in half a gigabyte. The server must live, lose no
// acknowledged point, and refuse what is too much so that clients come back.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const limit = 512 << 20
	_, wrap := memoryCgroup(t, limit)
	s := New(t)
	s.Wrap = wrap
	squeeze(t, s, limit)
}

// TestGoMemoryLimit is the same where the limit comes by GOMEMLIMIT.
func TestGoMemoryLimit(t *testing.T) {
	t.Parallel()
	const limit = 400 << 20
	s := New(t)
	s.Env = []string{"GOMEMLIMIT=" + strconv.Itoa(limit)}
	squeeze(t, s, limit*5/4)
}

func squeeze(t *testing.T, s *Server, limit int64) {
	s.Restart()
	s.Query("", "CREATE DATABASE db")
	took := *memoryTime
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan struct{}, 1) // something is stored
	go func() {
		time.Sleep(took)
		select {
		case <-first: // on a slow machine later
		case <-time.After(time.Minute):
		}
		cancel()
	}()
	memory := watch(s)
	var wg sync.WaitGroup
	const writers = 8
	var sure, maybe [writers]int64 // points
	var refused, asked, failed atomic.Int64
	errs := make(chan error, 2*writers)
	for w := range writers {
		wg.Go(func() {
			for batch := int64(0); ctx.Err() == nil; batch++ {
				lines, n := squeezeBatch(w, batch)
				for ctx.Err() == nil {
					stored, err := s.Post(ctx, "db", lines)
					if err != nil {
						if ctx.Err() == nil {
							errs <- err
						}
						maybe[w] = n
						return
					}
					if stored {
						sure[w] += n
						select {
						case first <- struct{}{}:
						default:
						}
						break
					}
					refused.Add(1)
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	for _, q := range []string{
		"SELECT * FROM m0",
		"SELECT mean(a), max(b) FROM m1 WHERE time >= 0 AND time < 1h GROUP BY time(1ms)",
		"SELECT last(a), count(b) FROM /m.*/ GROUP BY *",
		"SELECT * FROM m2 GROUP BY *",
	} {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _, err := s.Do(ctx, "GET", "/query", url.Values{"db": {"db"}, "q": {q}}, "")
				asked.Add(1)
				if err != nil {
					failed.Add(1)
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	rss, anon := memory.end()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if s.Status("VmRSS") < 0 {
		t.Fatalf("the server is gone\n%s", tail(s.Log()))
	}
	total := int64(0)
	for _, n := range sure {
		total += n
	}
	series, _ := s.Metric("tsdbd_store_series")
	t.Logf("%d points and %.0f series in %v, %d writes refused, %d queries (%d cut); RSS %d MiB, anonymous %d MiB, limit %d MiB",
		total, series, took, refused.Load(), asked.Load(), failed.Load(), rss, anon, limit>>20)
	if total == 0 {
		t.Error("nothing was stored")
	}
	if anon >= limit>>20 {
		t.Errorf("anonymous memory of %d MiB is above the limit", anon)
	}
	check := func(when string) {
		t.Helper()
		for w := range writers {
			var got int64
			// A request that was cut may still be in the making: its batch is
			// counted when all of it shows.
			for patience := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				n, err := s.Count("db", fmt.Sprintf("SELECT count(a) FROM m%d WHERE w = '%d'", w%4, w))
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if got = n; got == sure[w] || got == sure[w]+maybe[w] || time.Now().After(patience) {
					break
				}
			}
			if got != sure[w] && got != sure[w]+maybe[w] {
				t.Errorf("%s: writer %d: %d points, %d acknowledged and %d unsure", when, w, got, sure[w], maybe[w])
			}
		}
	}
	check("running")
	s.Kill()
	memory = watch(s)
	begin := time.Now()
	s.Restart()
	started := time.Since(begin)
	check("after a crash")
	rss, anon = memory.end()
	t.Logf("started again in %v, RSS %d MiB, anonymous %d MiB", started.Round(time.Millisecond), rss, anon)
}

// squeezeBatch makes 2,000 points of a writer, every tenth of a new series.
func squeezeBatch(w int, batch int64) (string, int64) {
	var b []byte
	for i := range int64(2000) {
		host := i % 20
		if i%10 == 0 {
			host = 1000 + batch*200 + i/10
		}
		b = append(b, 'm', '0'+byte(w%4))
		b = append(b, ",w="...)
		b = strconv.AppendInt(b, int64(w), 10)
		b = append(b, ",host=server-"...)
		b = strconv.AppendInt(b, host, 10)
		b = append(b, ".example.com,region=north a="...)
		b = strconv.AppendInt(b, i, 10)
		b = append(b, ",b="...)
		b = strconv.AppendInt(b, batch, 10)
		b = append(b, "i,c=\"state "...)
		b = strconv.AppendInt(b, i%5, 10)
		b = append(b, "\" "...)
		b = strconv.AppendInt(b, (batch*2000+i)*1_000_000, 10)
		b = append(b, '\n')
	}
	return string(b), 2000
}

// TestMemorySource holds that the log says what limits the memory.
func TestMemorySource(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"", "GOMEMLIMIT=300MiB"} {
		s := New(t)
		s.Env = []string{"GOMEMLIMIT="}
		want := []string{"source=cgroup", "source=machine"}
		if limit != "" {
			s.Env, want = []string{limit}, []string{"memory=314572800 source=GOMEMLIMIT"}
		}
		s.Restart()
		if !slices.ContainsFunc(want, func(text string) bool { return strings.Contains(s.Log(), text) }) {
			t.Errorf("%q: the log does not say %q: %s", limit, want, s.Log())
		}
		s.Stop()
	}
}
