package apptest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
)

var (
	coldAway  = flag.Duration("cold-away", 5*time.Second, "how long the cold store of TestColdFaults cannot be reached")
	coldFault = flag.Duration("cold-fault", 2*time.Second, "how long each other fault of TestColdFaults lasts")
)

// What TestColdFaults allows. Between the timeout and the bound of a query is room for a machine
// that has much to do.
const (
	coldTimeout    = 6 * time.Second // cold.timeout
	coldQueryBound = coldTimeout + 5*time.Second
	warmBound      = coldTimeout - time.Second // of a write, and of a query that needs no store: none waits for one that does
)

// front stands before a bucket, and does what goes wrong.
type front struct {
	t       testing.TB
	bucket  *objecttest.Server
	addr    string
	fault   atomic.Pointer[coldFaulty]
	bodies  atomic.Int64 // requests for bodies that are under way
	mu      sync.Mutex
	serving *http.Server // nil: nobody listens
}

// coldFaulty answers a request wrongly, or returns false to have it answered well. ended is
// closed when the fault ends.
type coldFaulty struct {
	answer func(f *front, w http.ResponseWriter, r *http.Request, ended <-chan struct{}) bool
	ended  chan struct{}
}

func newFront(t testing.TB, bucket *objecttest.Server) *front {
	f := &front{t: t, bucket: bucket, addr: FreeAddress(t)}
	f.listen()
	t.Cleanup(f.leave)
	return f
}

func (f *front) listen() {
	f.t.Helper()
	var l net.Listener
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if l, err = net.Listen("tcp", f.addr); err == nil {
			break
		}
		if time.Now().After(deadline) {
			f.t.Fatal(err)
		}
	}
	s := &http.Server{Handler: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving = s
	go func() { _ = s.Serve(l) }()
}

// leave has nobody listen.
func (f *front) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.serving != nil {
		_ = f.serving.Close()
	}
	f.serving = nil
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isBody(r) {
		f.bodies.Add(1)
		defer f.bodies.Add(-1)
	}
	if p := f.fault.Load(); p != nil && p.answer(f, w, r, p.ended) {
		return
	}
	f.bucket.Serve(w, r)
}

// isBody reports whether a request is for bytes of a cold file.
func isBody(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/objects/")
}

// begin has the fault begin. Nil closes the listener.
func (f *front) begin(answer func(f *front, w http.ResponseWriter, r *http.Request, ended <-chan struct{}) bool) {
	if answer == nil {
		f.leave()
		return
	}
	f.fault.Store(&coldFaulty{answer, make(chan struct{})})
}

// end has the fault end.
func (f *front) end() {
	if p := f.fault.Swap(nil); p != nil {
		close(p.ended)
		return
	}
	f.listen()
}

// whole returns the answer of the bucket.
func (f *front) whole(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	f.bucket.Serve(rec, r)
	return rec
}

// send sends an answer with other bytes. length is what it says of them.
func send(w http.ResponseWriter, rec *httptest.ResponseRecorder, length int, body []byte) {
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body)
}

// refuses returns a fault that answers every n-th request with an error of S3.
func refuses(n int64, status int, codes ...string) func(*front, http.ResponseWriter, *http.Request, <-chan struct{}) bool {
	var count atomic.Int64
	return func(_ *front, w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) bool {
		at := count.Add(1)
		if at%n != 0 {
			return false
		}
		objecttest.Refuse(w, status, codes[at/n%int64(len(codes))])
		return true
	}
}

// coldPhase is something that goes wrong with the store for a while.
type coldPhase struct {
	name  string
	fault func(f *front, w http.ResponseWriter, r *http.Request, ended <-chan struct{}) bool
	// told says that the store cannot be kept meanwhile, which /health must say.
	told bool
	// failing says that queries that need the store cannot be answered meanwhile.
	failing bool
}

// coldPhases are what goes wrong, one after the other.
func coldPhases() []coldPhase {
	var mu sync.Mutex
	asked := map[string]int{} // the number of each object that was asked for
	return []coldPhase{
		{"connection refused", nil, true, true},
		{"no answer", func(_ *front, _ http.ResponseWriter, r *http.Request, ended <-chan struct{}) bool {
			select {
			case <-ended:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		}, true, true},
		{"bytes trickle", func(f *front, w http.ResponseWriter, r *http.Request, ended <-chan struct{}) bool {
			rec := f.whole(r)
			body := rec.Body.Bytes()
			if r.Method != http.MethodGet {
				return false
			}
			send(w, rec, len(body), nil)
			step := 256
			if isBody(r) {
				step = 64 // the smallest range takes longer than a query is tried
			}
			for len(body) > 0 {
				n := min(len(body), step)
				if _, err := w.Write(body[:n]); err != nil {
					break
				}
				w.(http.Flusher).Flush()
				body = body[n:]
				select {
				case <-ended:
				case <-r.Context().Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
			return true
		}, false, true},
		{"answers break off", func(f *front, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
			if r.Method != http.MethodGet {
				return false
			}
			rec := f.whole(r)
			send(w, rec, rec.Body.Len(), rec.Body.Bytes()[:rec.Body.Len()/2])
			if err := http.NewResponseController(w).Flush(); err != nil {
				return true
			}
			panic(http.ErrAbortHandler)
		}, true, false},
		{"answers are short", func(f *front, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
			if r.Method != http.MethodGet {
				return false
			}
			rec := f.whole(r)
			send(w, rec, rec.Body.Len()/2, rec.Body.Bytes()[:rec.Body.Len()/2])
			return true
		}, true, true},
		{"wrong bytes", func(f *front, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
			if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
				return false
			}
			rec := f.whole(r)
			body := rec.Body.Bytes()
			// A bit in every 1,000 bytes, so that each column has one.
			for at := rand.IntN(min(max(len(body), 1), 1000)); at < len(body); at += 1000 {
				body[at] ^= 1 << rand.IntN(8)
			}
			send(w, rec, len(body), body)
			return true
		}, true, true},
		{"every second object is missing", func(_ *front, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
			if !isBody(r) {
				return false
			}
			mu.Lock()
			number, ok := asked[r.URL.Path]
			if !ok {
				number = len(asked)
				asked[r.URL.Path] = number
			}
			mu.Unlock()
			if number%2 == 1 {
				return false
			}
			objecttest.Refuse(w, http.StatusNotFound, "NoSuchKey")
			return true
		}, false, true},
		{"some requests fail", refuses(3, http.StatusServiceUnavailable, "SlowDown", "InternalError", "ServiceUnavailable"), false, false},
		{"all requests fail", refuses(1, http.StatusInternalServerError, "InternalError", "SlowDown"), true, true},
		{"expired credentials", refuses(1, http.StatusBadRequest, "ExpiredToken"), true, true},
		{"key removed", refuses(1, http.StatusForbidden, "InvalidAccessKeyId"), true, true},
		{"clock wrong", refuses(1, http.StatusForbidden, "RequestTimeTooSkewed"), true, true},
	}
}

// coldBench is a server with cold shards, and what its clients must see of it.
type coldBench struct {
	*Server
	t     *testing.T
	front *front
	r     *rand.Rand
	base  int64 // nanoseconds; each phase has four weeks from there on

	phase          atomic.Pointer[string]
	said           atomic.Pointer[string] // the phase of which an error was logged
	writes, warm   latency
	late, recent   atomic.Int64 // rows that were acknowledged
	warmWant       string
	deleted        int64 // rows
	questions      []map[string]string
	sweeps, asking latency
}

// latency counts calls, and keeps the longest.
type latency struct {
	sync.Mutex
	n    int
	most time.Duration
}

func (l *latency) add(took time.Duration) {
	l.Lock()
	defer l.Unlock()
	l.n, l.most = l.n+1, max(l.most, took)
}

func (l *latency) String() string {
	l.Lock()
	defer l.Unlock()
	return fmt.Sprintf("%d, the longest %s", l.n, l.most.Round(time.Millisecond))
}

const (
	coldWeek = int64(7 * 24 * time.Hour)
	// deletedRows is how many rows of one measurement a phase has, of which half are deleted.
	deletedRows = 2000
)

// week returns the time at which a week of a phase begins: 0 and 1 are asked for, 2 has deleted rows, 3
// is due to be uploaded.
func (b *coldBench) week(phase, n int) int64 { return b.base + int64(4*phase+n)*coldWeek }

// fill writes rows of a week.
func (b *coldBench) fill(begin int64) {
	var lines strings.Builder
	for range 6000 {
		at := begin + b.r.Int64N(coldWeek)/1e9*1e9
		fmt.Fprintf(&lines, "m,h=h%d v=%d,i=%di,s=\"t%d\" %d\n", b.r.IntN(2), b.r.IntN(1_000_000), b.r.IntN(1_000_000), b.r.IntN(9), at)
	}
	b.Write("d", lines.String())
}

// write writes a recent row and, at every fifth call, a late one, of a cold shard, until ctx ends.
func (b *coldBench) write(ctx context.Context, phases int) {
	for n := 0; ctx.Err() == nil; n++ {
		lines, late := fmt.Sprintf("recent v=%di", n), int64(0)
		if n%5 == 0 {
			late = 1
			lines += fmt.Sprintf("\nlate v=%di %d", n, b.week(n/5%phases, 0)+int64(n))
		}
		begin := time.Now()
		ok, err := b.Post(context.Background(), "d", lines)
		took := time.Since(begin)
		if !ok || err != nil || took > warmBound {
			b.t.Errorf("%s: a write: stored %v, %v, after %s", *b.phase.Load(), ok, err, took)
		}
		if ok {
			b.recent.Add(1)
			b.late.Add(late)
		}
		b.writes.add(took)
		pauseFor(ctx, 30*time.Millisecond)
	}
}

const warmQuestion = "SELECT percentile(v, 42), count(distinct(v)), sum(v) FROM warm GROUP BY h"

// askWarm asks for rows that are local until ctx ends.
func (b *coldBench) askWarm(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		answer, err := b.ask(context.Background(), warmQuestion)
		took := time.Since(begin)
		if err != nil || answer != b.warmWant || took > warmBound {
			b.t.Errorf("%s: a warm query: %v, after %s: %.300s", *b.phase.Load(), err, took, answer)
		}
		b.warm.add(took)
		pauseFor(ctx, 50*time.Millisecond)
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// answers asks for what a phase is asked. It reports whether all answers were right: others must be errors
// that name the store or an object. What the tails say is always right.
func (b *coldBench) answers(phase int) (right bool) {
	b.t.Helper()
	right = true
	for q, want := range b.questions[phase] {
		begin := time.Now()
		answer, err := b.ask(context.Background(), q)
		took := time.Since(begin)
		b.asking.add(took)
		named := strings.Contains(answer, `"error"`) && !strings.Contains(answer, `"series"`) &&
			(strings.Contains(answer, "cold storage unreachable") || strings.Contains(answer, "objects/"))
		ofTails := !strings.Contains(q, "percentile")
		switch {
		case err != nil || took > coldQueryBound || answer != want && (ofTails || !named):
			b.t.Errorf("%s: %s: %v after %s: %.1000s\nwant %.1000s", *b.phase.Load(), q, err, took, answer, want)
		case answer != want:
			if name := b.phase.Load(); b.said.Swap(name) != name {
				b.t.Logf("%s: after %s: %.400s", *name, took.Round(time.Millisecond), answer)
			}
			right = false
		}
	}
	return right
}

// run has one thing go wrong.
func (b *coldBench) run(n int, p *coldPhase) {
	b.fill(b.week(n, 3))
	from := b.week(n, 2)
	if answer := b.Query("d", fmt.Sprintf("DELETE FROM gone WHERE time >= %d AND time < %d", from, from+deletedRows/2*int64(time.Minute))); strings.Contains(answer, "error") {
		b.t.Fatal(answer)
	}
	b.deleted += deletedRows / 2
	b.phase.Store(&p.name)
	began := time.Now()
	lasts := *coldFault
	if p.fault == nil {
		lasts = *coldAway
	}
	b.front.begin(p.fault)
	ending := make(chan struct{})
	var others sync.WaitGroup
	for range 3 { // more than this machine may have cores for queries
		others.Go(func() {
			for {
				b.answers(n)
				select {
				case <-ending:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	others.Go(func() {
		for {
			begin := time.Now()
			status, body, err := b.Do(context.Background(), http.MethodPost, "/api/tsdbd/cold", url.Values{"do": {"sweep"}}, "")
			b.sweeps.add(time.Since(begin))
			if err != nil || status != http.StatusOK && (status != http.StatusServiceUnavailable || !strings.Contains(body, "error")) {
				b.t.Errorf("%s: sweep: %d %s %v", p.name, status, body, err)
			}
			select {
			case <-ending:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	wrong := 0
	for {
		if !b.answers(n) {
			wrong++
		}
		_, health := b.Health()
		if told := strings.Contains(health, "cold store s3://"); time.Since(began) > lasts && (told || !p.told) {
			break
		}
		if time.Since(began) > lasts+90*time.Second {
			b.t.Errorf("%s: /health does not tell: %s", p.name, health)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if p.failing && wrong == 0 {
		b.t.Errorf("%s: all cold queries were answered: the test does not ask the store", p.name)
	}
	close(ending)
	others.Wait()
	if p.name == "no answer" {
		b.clientLeaves(n)
	}
	b.front.end()
	ended := time.Now()
	for !b.answers(n) {
		if time.Since(ended) > 30*time.Second {
			b.t.Fatalf("%s: queries do not heal", p.name)
		}
		time.Sleep(50 * time.Millisecond)
	}
	queries := time.Since(ended)
	b.chill(3*len(b.questions) + n + 1)
	if _, health := b.Health(); strings.Contains(health, "cold store s3://") {
		b.t.Errorf("%s: after it /health says %s", p.name, health)
	}
	if got, err := b.Count("d", "SELECT count(v) FROM gone"); err != nil || got != int64(len(b.questions))*deletedRows-b.deleted {
		b.t.Errorf("%s: %d rows of which half are deleted, %v", p.name, got, err)
	}
	b.t.Logf("%s: lasted %s, %d rounds of queries failed; healed: queries after %s, the store after %s", p.name,
		ended.Sub(began).Round(time.Millisecond), wrong, queries.Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
}

// clientLeaves has the client of a query go away while the store does not answer: its requests end
// long before the timeout.
func (b *coldBench) clientLeaves(phase int) {
	for q := range b.questions[phase] {
		if !strings.Contains(q, "percentile") {
			continue
		}
		for deadline := time.Now().Add(time.Minute); b.front.bodies.Load() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				b.t.Fatal("requests for bodies do not end")
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.ask(ctx, q)
		}()
		for b.front.bodies.Load() == 0 && time.Since(began) < coldTimeout {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
		<-ended
		left := time.Now()
		for b.front.bodies.Load() > 0 {
			if time.Since(began) > coldTimeout-500*time.Millisecond {
				b.t.Error("a request goes on whose client has left")
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		b.t.Logf("requests ended %s after their client", time.Since(left).Round(time.Millisecond))
		return
	}
}

// TestColdFaults has a cold store go wrong in every way that stores do, one after the other, while a
// server writes, answers, uploads and sweeps. Writes, and queries that need no store, notice
// nothing. Other queries give the right answer, or say in time why not. /health tells it.
// All heals by itself, and nothing is lost.
func TestColdFaults(t *testing.T) {
	t.Parallel()
	bucket := objecttest.NewServer(t)
	f := newFront(t, bucket)
	phases := coldPhases()
	const base = 1_500_000_000_000_000_000 / coldWeek * coldWeek
	b := &coldBench{Server: New(t), t: t, front: f, base: base, r: rand.New(rand.NewPCG(testseed.Of(t), 3))}
	b.Env = append([]string{
		"TSDBD_COLD_URL=s3://" + objecttest.Bucket + "/p", "TSDBD_COLD_ENDPOINT=http://" + f.addr, "TSDBD_COLD_PATH_STYLE=true",
		"TSDBD_COLD_ACCESS_KEY=a", "TSDBD_COLD_SECRET_KEY=b",
	}, coldEnv...)
	b.Env = append(b.Env, "TSDBD_COLD_TIMEOUT="+coldTimeout.String())
	b.Restart()
	b.Query("", "CREATE DATABASE d")
	nothing := "no fault"
	b.phase.Store(&nothing)
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "warm,h=h%d v=%di %d\n", i%3, b.r.IntN(10_000), time.Now().UnixNano()-int64(i))
	}
	b.Write("d", lines.String())
	for n := range phases {
		b.fill(b.week(n, 0))
		b.fill(b.week(n, 1))
		lines.Reset()
		for i := range deletedRows {
			fmt.Fprintf(&lines, "gone v=%d %d\n", b.r.IntN(1_000_000), b.week(n, 2)+int64(i)*int64(time.Minute))
		}
		b.Write("d", lines.String())
		b.questions = append(b.questions, map[string]string{})
		during := fmt.Sprintf("WHERE time >= %d AND time < %d", b.week(n, 0), b.week(n, 2))
		for _, q := range []string{
			"SELECT count(v), sum(i), max(v) FROM m " + during,
			"SELECT percentile(v, 42), count(distinct(s)), mean(i) FROM m " + during + " GROUP BY time(12h), h fill(none)",
		} {
			b.questions[n][q] = b.Query("d", q)
		}
	}
	b.warmWant = b.Query("d", warmQuestion)
	b.chill(3 * len(phases))
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { b.write(ctx, len(phases)) })
	clients.Go(func() { b.askWarm(ctx) })
	for n := range phases {
		b.run(n, &phases[n])
	}
	b.healsAlone()
	stop()
	clients.Wait()
	figure.Report(t, "an object store that is away, hangs, trickles, breaks off, is short, has wrong bytes, lacks objects, fails, refuses, beside writes and queries that do not need it",
		figure.Count{N: len(phases), Of: "faults"}, figure.Count{N: b.writes.n, Of: "writes"}, figure.Count{N: b.warm.n, Of: "warm queries"}, figure.Count{N: b.asking.n, Of: "cold queries"})
	t.Logf("writes: %s; warm queries: %s; cold queries: %s; sweeps: %s", &b.writes, &b.warm, &b.asking, &b.sweeps)
	for n := range phases {
		if !b.answers(n) {
			t.Errorf("at the end: a query of phase %d fails", n)
		}
	}
	for measurement, want := range map[string]int64{"late": b.late.Load(), "recent": b.recent.Load(), "gone": int64(len(phases))*deletedRows - b.deleted} {
		if got, err := b.Count("d", "SELECT count(v) FROM "+measurement); err != nil || got != want {
			t.Errorf("%s has %d rows, %v, want %d", measurement, got, err, want)
		}
	}
	if status, body := b.coldDo("verify", "deep", "true"); status != http.StatusOK || !strings.Contains(body, `"problems":[]`) {
		t.Errorf("verify: %d %s", status, body)
	}
	// A server ends in time though the store does not answer.
	f.begin(phases[1].fault)
	began := time.Now()
	go func() { _, _ = b.ask(context.Background(), "SELECT percentile(v, 1) FROM m") }()
	b.Stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the server took %s to end", took)
	}
	f.end()
	b.Restart()
	for n := range phases {
		if !b.answers(n) {
			t.Errorf("after a restart: a query of phase %d fails", n)
		}
	}
}

// healsAlone has all requests fail once more, and waits until the server has found out that they
// do not any more, without being told to look. By then the objects that nobody needs are older
// than the grace, and go.
func (b *coldBench) healsAlone() {
	if testing.Short() {
		return
	}
	b.front.begin(refuses(1, http.StatusServiceUnavailable, "SlowDown"))
	if status, body := b.coldDo("sweep"); status != http.StatusServiceUnavailable {
		b.t.Errorf("sweep without a store: %d %s", status, body)
	}
	b.front.end()
	ended := time.Now()
	for {
		if _, health := b.Health(); !strings.Contains(health, "cold store s3://") {
			break
		}
		if time.Since(ended) > 3*time.Minute {
			b.t.Fatalf("the store does not heal by itself: %+v", b.coldStatus())
		}
		time.Sleep(500 * time.Millisecond)
	}
	b.t.Logf("the store healed by itself after %s", time.Since(ended).Round(time.Millisecond))
	for {
		status, body := b.coldDo("sweep")
		if status == http.StatusOK && b.coldStatus().Unneeded == 0 {
			return
		}
		if time.Since(ended) > 5*time.Minute {
			b.t.Fatalf("objects are left that nobody needs: %d %s %+v", status, body, b.coldStatus())
		}
		time.Sleep(time.Second)
	}
}
