package apptest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
)

var (
	sameRounds  = flag.Int("same-rounds", 3, "rounds of changes and questions of TestSameAnswers")
	sameServers = flag.Int("same-servers", 3, "servers with settings of their own of TestSameAnswers")
)

// sameStep is a change, or a question.
type sameStep struct {
	query string // or a write
	lines string
	asks  bool
}

// TestSameAnswers takes the same random changes and questions to servers whose settings,
// shard durations, processors and restarts differ: all of them give the same answers, to the byte.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	steps := sameSteps(rand.New(rand.NewPCG(seed, 21)), *sameRounds)
	answers, described := make([][]string, *sameServers), make([]string, *sameServers)
	failed := make([]error, *sameServers)
	var wg sync.WaitGroup
	for i := range *sameServers {
		rnd := rand.New(rand.NewPCG(seed, 100+uint64(i)))
		s := New(t)
		var shards string
		s.Env, shards = sameSettings(rnd)
		described[i] = strings.Join(s.Env, " ") + " SHARD DURATION " + shards
		s.Restart()
		s.Query("", "CREATE DATABASE db WITH DURATION INF SHARD DURATION "+shards+" NAME autogen")
		wg.Go(func() { answers[i], failed[i] = s.sameRun(rnd, steps) })
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	asked, rows := 0, 0
	for n, step := range steps {
		if !step.asks {
			continue
		}
		asked++
		if strings.Contains(answers[0][n], `"values"`) {
			rows++
		}
		for i := range answers[1:] {
			if answers[i+1][n] != answers[0][n] {
				from := max(sameUntil(answers[0][n], answers[i+1][n])-200, 0)
				t.Errorf("step %d, %s\n%s:\n... %.600s\n%s:\n... %.600s", n, step.query, described[0], answers[0][n][from:], described[i+1], answers[i+1][n][from:])
			}
		}
	}
	if rows < asked/2 {
		t.Errorf("%d of %d answers have rows: the questions are too narrow", rows, asked)
	}
	figure.Report(t, "the same random changes and questions to servers with other settings, shards, processors and restarts",
		figure.Count{N: asked, Of: fmt.Sprintf("questions of %d servers each", *sameServers)})
	t.Logf("%d answers have rows", rows)
}

// sameUntil returns how many bytes two texts begin with alike.
func sameUntil(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// sameSettings draws the settings of a server, and the length of its shards.
func sameSettings(rnd *rand.Rand) (env []string, shards string) {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	set := func(name string, list ...string) { env = append(env, name+"="+pick(list...)) }
	set("GOMAXPROCS", "1", "2", "8")
	set("TSDBD_DATA_FLUSH_SIZE", "16KiB", "64KiB", "1MiB", "32MiB")
	set("TSDBD_DATA_FLUSH_IDLE", "10ms", "200ms", "1h")
	set("TSDBD_DATA_COMPACT_AFTER", "10ms", "500ms", "1h")
	set("TSDBD_DATA_COMPACT_THROUGHPUT", "0", "1MiB")
	set("TSDBD_DATA_WAL_SEGMENT_SIZE", "1MiB", "4MiB")
	set("TSDBD_DATA_WAL_MAX_SIZE", "8MiB", "512MiB")
	set("TSDBD_DATA_SERIES_MEMORY", "1KiB", "16MiB")
	set("TSDBD_DATA_SCRUB_INTERVAL", "0s", "1m")
	return env, pick("1h", "1d", "7d", "52w")
}

// sameSteps draws changes and questions.
func sameSteps(rnd *rand.Rand, rounds int) (steps []sameStep) {
	g := &queryGen{rnd}
	// What a shard takes of mixed types depends on the shards, and so does the order of rows of
	// equal time (docs/influxql.md). So times are unique over all series and rounds.
	mixed := func(text string) bool {
		return strings.Contains(text, "mix") || strings.Contains(text, "tie") || strings.Contains(text, "/")
	}
	var points [][2]string // series and time
	for round := range rounds {
		var batch strings.Builder
		for line := range strings.Lines(g.lines()) {
			if mixed(line) {
				continue
			}
			key, rest, _ := strings.Cut(line, " ")
			at := strings.LastIndex(rest, " ")
			point := [2]string{key, fmt.Sprintf("%s%09d", strings.TrimSpace(rest[at:]), round)}
			if !strings.HasPrefix(key, "m2") { // whose series are renamed, so that the row would be there twice
				points = append(points, point)
			}
			if g.one(3) && len(points) > 0 { // over one that was there before
				point = points[g.IntN(len(points))]
			}
			fmt.Fprintf(&batch, "%s %s %s\n", point[0], rest[:at], point[1])
			if g.one(60) {
				steps = append(steps, sameStep{lines: batch.String()})
				batch.Reset()
			}
		}
		if batch.Len() > 0 {
			steps = append(steps, sameStep{lines: batch.String()})
		}
		for range 3 {
			from := genStart + g.Int64N(genSpan)
			m, h := g.source(), g.IntN(3)
			steps = append(steps, sameStep{query: g.pick(
				fmt.Sprintf("DELETE FROM %s WHERE h = 'h%d' AND time >= %ds AND time < %ds", m, h, from, from+g.Int64N(genSpan/4)),
				fmt.Sprintf("DELETE FROM %s WHERE time >= %ds AND time < %ds", m, from, from+g.Int64N(7200)),
				fmt.Sprintf("DROP SERIES FROM %s WHERE h = 'h%d' AND r = '%s'", m, h, g.pick("eu", "us", "ap")),
				fmt.Sprintf("UPDATE m2 SET r = 'eu' WHERE h = 'h%d' AND r = 'ap'", h),
			)})
		}
		for asked := 0; asked < 40; {
			if q := g.query(); !mixed(q) {
				steps, asked = append(steps, sameStep{query: q, asks: true}), asked+1
			}
		}
		for _, q := range []string{"SHOW SERIES", "SHOW TAG VALUES WITH KEY = r", "SHOW FIELD KEYS", "SELECT count(*) FROM m0, m1, m2 GROUP BY *"} {
			steps = append(steps, sameStep{query: q, asks: true})
		}
	}
	return steps
}

// sameRun takes the steps, and stops, kills and starts the server between some of them.
func (s *Server) sameRun(rnd *rand.Rand, steps []sameStep) (answers []string, err error) {
	answers = make([]string, len(steps))
	for n, step := range steps {
		switch rnd.IntN(40) {
		case 0:
			s.Kill()
			s.Begin()
			err = s.Await()
		case 1:
			if err = s.process.Load().Stop(3 * time.Minute); err == nil {
				s.Begin()
				err = s.Await()
			}
		}
		if err != nil {
			return nil, err
		}
		path, params, want := "/query", url.Values{"db": {"db"}, "q": {step.query}, "epoch": {"ns"}}, http.StatusOK
		if step.lines != "" {
			path, params, want = "/write", url.Values{"db": {"db"}}, http.StatusNoContent
		}
		for { // a full cache asks for patience
			var status int
			status, answers[n], err = s.Do(context.Background(), http.MethodPost, path, params, step.lines)
			if status == http.StatusServiceUnavailable {
				continue
			}
			if err == nil && status != want && !step.asks {
				err = fmt.Errorf("step %d, %s: %d %s", n, step.query, status, answers[n])
			}
			break
		}
		if err == nil && !step.asks && strings.Contains(answers[n], `"error"`) {
			err = fmt.Errorf("step %d, %s: %s", n, step.query, answers[n])
		}
		if err != nil {
			return nil, err
		}
	}
	return answers, s.process.Load().Stop(3 * time.Minute)
}
