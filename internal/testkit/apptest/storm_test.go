package apptest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
)

var stormTime = flag.Duration("storm-time", 2*time.Second, "how long TestStorm blows")

// TestStorm writes, deletes, drops and makes databases and asks, with clients
// that hang up, and stops and starts the server in the middle. No answer may be
// a failure of the server, the probe is answered all the time, and the log
// shows no panic.
func TestStorm(t *testing.T) {
	t.Parallel()
	took := *stormTime
	seed := testseed.Of(t)
	s := New(t)
	s.Env = []string{"TSDBD_DATA_FLUSH_SIZE=1MiB", "TSDBD_DATA_CACHE_MAX_MEMORY=64MiB", "TSDBD_DATA_COMPACT_AFTER=1s", "TSDBD_DATA_FLUSH_IDLE=200ms"}
	s.Restart()
	for half := range 2 {
		s.Query("", "CREATE DATABASE probe")
		ctx, cancel := context.WithCancel(context.Background())
		probed := make(chan error, 1)
		go func() { probed <- probe(ctx, s, "probe") }()
		storm := &storm{s: s, answers: map[string]int{}}
		var wg sync.WaitGroup
		for i := range 12 {
			r := rand.New(rand.NewPCG(seed, uint64(100*half+i)))
			wg.Go(func() { storm.client(r, i) })
		}
		time.Sleep(took / 2)
		cancel() // of the probe; the clients go on into the stop
		if err := <-probed; err != nil {
			t.Errorf("half %d: %v", half, err)
		}
		storm.stopping.Store(true)
		begin := time.Now()
		err := s.process.Load().Stop(3 * time.Minute)
		stopped := time.Since(begin)
		storm.over.Store(true)
		wg.Wait()
		if err != nil {
			t.Errorf("half %d: stopped with %v\n%s", half, err, tail(s.Log()))
		}
		if log := s.Log(); strings.Contains(log, "panic") || strings.Contains(log, "level=ERROR") {
			t.Errorf("half %d:\n%s", half, tail(log))
		}
		for _, bad := range storm.bad {
			t.Errorf("half %d: %s", half, bad)
		}
		t.Logf("half %d: %v, stopped in %v", half, storm.answers, stopped.Round(time.Millisecond))
		s.Restart()
	}
	s.Stop()
}

type storm struct {
	s              *Server
	stopping, over atomic.Bool
	mu             sync.Mutex
	answers        map[string]int
	bad            []string
}

// note counts an answer and keeps the first that should not be.
func (g *storm) note(what string, status int, body string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	code := fmt.Sprint(status)
	if err != nil {
		code = "cut"
	}
	g.answers[what+" "+code]++
	if status >= 500 && !(status == http.StatusServiceUnavailable && (g.stopping.Load() || what == "write")) || strings.Contains(body, "panic") {
		if len(g.bad) < 5 {
			g.bad = append(g.bad, fmt.Sprintf("%s: %d %.300s", what, status, body))
		}
	}
	if err != nil && !g.stopping.Load() && what != "hang up" {
		if len(g.bad) < 5 {
			g.bad = append(g.bad, fmt.Sprintf("%s: %v", what, err))
		}
	}
}

func (g *storm) client(r *rand.Rand, id int) {
	for !g.over.Load() {
		db := fmt.Sprintf("db%d", r.IntN(3))
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		post := func(what, q string) {
			status, body, err := g.s.Do(ctx, http.MethodPost, "/query", url.Values{"db": {db}, "q": {q}}, "")
			g.note(what, status, body, err)
		}
		switch k := r.IntN(100); {
		case k < 50:
			var b strings.Builder
			for range 1 + r.IntN(500) {
				fmt.Fprintf(&b, "m%d,h=h%d,x=%d v=%d,s=\"a%d\" %d\n", r.IntN(5), r.IntN(50), r.IntN(2000), r.IntN(1000), r.IntN(9), r.Int64N(int64(30*24*time.Hour)))
			}
			status, body, err := g.s.Do(ctx, http.MethodPost, "/write", url.Values{"db": {db}}, b.String())
			g.note("write", status, body, err)
		case k < 60:
			post("query", fmt.Sprintf("SELECT mean(v), count(s) FROM m%d WHERE time >= 0 AND time < 30d GROUP BY time(1d), h", r.IntN(5)))
		case k < 65:
			post("query", "SELECT * FROM /m[0-2]/ LIMIT 1000")
		case k < 70:
			post("query", "SHOW TAG VALUES FROM m1 WITH KEY = h; SHOW SERIES CARDINALITY; SHOW FIELD KEYS")
		case k < 78:
			short, stop := context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Millisecond)
			status, body, err := g.s.Do(short, http.MethodGet, "/query", url.Values{"db": {db}, "q": {"SELECT * FROM /m.*/ GROUP BY *"}}, "")
			stop()
			g.note("hang up", status, body, err)
		case k < 84:
			from := r.Int64N(int64(30 * 24 * time.Hour))
			post("delete", fmt.Sprintf("DELETE FROM m%d WHERE time >= %d AND time < %d", r.IntN(5), from, from+int64(time.Hour)))
		case k < 88:
			post("delete", fmt.Sprintf("DROP SERIES FROM m%d WHERE h = 'h%d'", r.IntN(5), r.IntN(50)))
		case k < 92:
			post("drop", fmt.Sprintf("DROP MEASUREMENT m%d", r.IntN(5)))
		case k < 94 && id < 3:
			post("drop", "DROP DATABASE "+db)
		default:
			post("create", "CREATE DATABASE "+db)
		}
		cancel()
		if g.stopping.Load() {
			time.Sleep(time.Millisecond)
		}
	}
}
