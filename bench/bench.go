package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tsdbd/internal/proc"
)

// target is a server that is measured: one we started, or one that runs.
type target struct {
	client  *client
	pid     int          // 0: not known
	data    string       // its directory; empty: not known
	log     func() int64 // bytes of its write-ahead log
	metrics bool         // speaks MetricsQL
}

// create makes the database anew.
func (t *target) create(ctx context.Context) error {
	if t.metrics {
		return nil // it has none
	}
	for _, q := range []string{"DROP DATABASE %s", "CREATE DATABASE %s"} {
		if err := t.client.command(ctx, fmt.Sprintf(q, strconv.Quote(t.client.db))); err != nil {
			return err
		}
	}
	return nil
}

// load writes everything and waits until the server is quiet.
func (t *target) load(ctx context.Context, o *options, w workload, phases []phase) (*loadFigures, error) {
	if err := t.create(ctx); err != nil {
		return nil, err
	}
	f := &loadFigures{}
	before, own := usage(t.pid), proc.CPUTime()
	peak := watch(t.pid)
	for i := range phases {
		p := &phases[i]
		begin := time.Now()
		if err := t.client.load(ctx, p.bodies, o.connections); err != nil {
			peak()
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		took := time.Since(begin)
		f.phases = append(f.phases, phaseFigures{p.name, p.rows, took})
		f.took += took
		f.rows += p.rows
		f.size += p.size
	}
	acknowledged := time.Now()
	f.values = f.rows * w.fields()
	f.cpu = usage(t.pid).cpu - before.cpu
	f.clientCPU = proc.CPUTime() - own
	f.retries = t.client.retries.Load()
	if t.data != "" {
		f.disk = diskBytes(t.data)
	}
	var err error
	if f.quiet, err = t.settle(ctx, o.settle); err != nil {
		peak()
		return nil, err
	}
	after := usage(t.pid)
	f.settled = after.cpu - before.cpu
	f.settledTook = time.Since(acknowledged)
	f.anon = peak()
	f.peak = after.peak
	f.written = after.written - before.written
	if t.data != "" {
		f.diskSettled, f.logSettled = diskBytes(t.data), t.log()
	}
	if f.wrongCount, err = t.check(ctx, w.count()); err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	return f, nil
}

// How long a server must do nothing to be quiet. Servers look for work every
// few seconds.
const quietTime = 8 * time.Second

// settle waits until neither the server's directory nor its CPU time has moved
// for a while; false if that takes longer than the limit.
func (t *target) settle(ctx context.Context, limit time.Duration) (bool, error) {
	if t.metrics {
		if _, err := t.client.do(ctx, http.MethodGet, "/internal/force_flush", nil, nil); err != nil {
			return false, err
		}
	}
	if t.data == "" || limit == 0 {
		return false, nil
	}
	begin := time.Now()
	since, last, cpu := begin, listing(t.data), usage(t.pid).cpu
	for time.Since(begin) < limit {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		now, nowCPU := listing(t.data), usage(t.pid).cpu
		// A twentieth of a core is what servers take for nothing.
		if now != last || nowCPU-cpu > max(time.Since(since)/20, 50*time.Millisecond) {
			since, last, cpu = time.Now(), now, nowCPU
		}
		if time.Since(since) >= min(quietTime, limit) {
			return true, nil
		}
	}
	return false, nil
}

// request returns what asks the target a question; an empty path if it cannot
// be asked.
func (t *target) request(q question) (path string, params url.Values) {
	if !t.metrics {
		return "/query", url.Values{"db": {t.client.db}, "q": {q.text}}
	}
	if q.metrics == nil {
		return "", nil
	}
	return q.metrics.path, q.metrics.params
}

// checkBytes is the size of the largest answer that is checked every time; of
// larger ones only those of the warm-up are.
const checkBytes = 64 << 10

// asked is one question's answer.
type asked struct {
	took  time.Duration
	bytes int
}

// ask asks a question. If all is set, the answer is checked whatever its size;
// wrong tells what is wrong with it.
func (t *target) ask(c *conn, q question, all bool) (a asked, wrong string, err error) {
	path, params := t.request(q)
	if path == "" {
		return a, "", nil
	}
	begin := time.Now()
	b, err := c.get(path, params)
	a = asked{time.Since(begin), len(b)}
	if err != nil {
		return a, "", err
	}
	if !all && len(b) > checkBytes {
		return a, "", nil
	}
	if t.metrics {
		var m matrix
		if m, err = parseMatrix(b); err == nil && q.metrics.check != nil {
			err = q.metrics.check(m)
		}
	} else {
		var r *answer
		if r, err = parseAnswer(b); err == nil && q.check != nil {
			err = q.check(r)
		}
	}
	if err != nil {
		return a, fmt.Sprintf("%.300s", err.Error()), nil
	}
	return a, "", nil
}

// check asks one question on a connection of its own; wrong tells what is wrong
// with the answer.
func (t *target) check(ctx context.Context, q question) (wrong string, err error) {
	c, err := dial(ctx, t.client.url)
	if err != nil {
		return "", err
	}
	defer c.close()
	_, wrong, err = t.ask(c, q, true)
	return wrong, err
}

// Limits of the questions of one kind, beside the most that were asked for.
const (
	warmups     = 5
	fewest      = 3
	enough      = 20              // after queryTime
	queryTime   = 2 * time.Second // of a kind
	slowestTime = 6 * time.Second // even if there are not enough
)

// query asks one kind of question, at first to warm up, then to measure. The
// questions are the same ones for every server.
func (t *target) query(ctx context.Context, q query, most int) (*queryFigures, error) {
	f := &queryFigures{name: q.name}
	r := rand.New(rand.NewPCG(838, 15))
	c, err := dial(ctx, t.client.url)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var took []time.Duration
	begin := time.Now()
	for i := range warmups {
		question := q.ask(r)
		if path, _ := t.request(question); path == "" {
			f.skipped = true
			return f, nil
		}
		if i > 0 && time.Since(begin) > queryTime {
			continue // but take the question from r
		}
		_, wrong, err := t.ask(c, question, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		if f.wrong == "" {
			f.wrong = wrong
		}
	}
	spent, before := time.Duration(0), usage(t.pid).cpu
	for len(took) < most && (len(took) < fewest || spent < queryTime || spent < slowestTime && len(took) < enough) {
		a, wrong, err := t.ask(c, q.ask(r), false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		if f.wrong == "" {
			f.wrong = wrong
		}
		took = append(took, a.took)
		spent += a.took
		f.bytes = a.bytes
	}
	f.latency = summary(took)
	f.cpu = (usage(t.pid).cpu - before) / time.Duration(max(len(took), 1))
	return f, nil
}

// queries asks all questions of a workload. One that fails does not stop the
// others.
func (t *target) queries(ctx context.Context, o *options, w workload) (out []*queryFigures, err error) {
	for _, q := range w.queries() {
		f, qerr := t.query(ctx, q, o.queries)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if qerr != nil {
			err = errors.Join(err, qerr)
			f = &queryFigures{name: q.name, wrong: qerr.Error()}
		}
		out = append(out, f)
	}
	return out, err
}
