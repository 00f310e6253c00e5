//go:build linux

package clustertest

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// gone is the value of a cell that was deleted.
const gone = -1

// row is a place where a worker writes.
type row struct{ series, time int64 }

// cell is a field of a row. Field 0 is v, field k is fk.
type cell struct {
	row
	field int
}

// worker is a client with a measurement of its own, which nobody else writes to. It
// knows what it may find there.
//
// A request without an answer, or with a 503, may have been carried out or not, and
// may still be: on its way it can wait at a node that is stopped or cut off. The
// worker repeats it, as clients do. But it never touches the rows of such a request
// again, because it could not say what they are then.
type worker struct {
	c           *cluster
	r           *rand.Rand
	db, name    string
	measurement string
	base        int64 // of all times
	at          int   // index of the node that it speaks to

	next   int64 // row
	value  int64
	series int64
	rows   []row
	sure   map[cell]int64
	frozen map[row]bool
	dead   map[int64]bool     // series that may still be dropped
	maybe  []map[cell]int64   // requests of unknown outcome: as a whole or not at all
	things map[string][]int64 // databases: the allowed sums of their values; gone: no such database

	acked, unanswered, refused int
	progress                   atomic.Int64 // acknowledged requests
	reasons                    map[string]int
}

func newWorker(c *cluster, seed uint64, round, id int) *worker {
	return &worker{
		c: c, r: rand.New(rand.NewPCG(seed, uint64(round*100+id+1))),
		db: "db", name: fmt.Sprintf("r%dw%d", round, id), measurement: fmt.Sprintf("r%dw%d", round, id),
		base: int64(round) * int64(8*24*time.Hour), at: id % len(c.nodes), series: 1,
		sure: map[cell]int64{}, frozen: map[row]bool{}, dead: map[int64]bool{}, things: map[string][]int64{}, reasons: map[string]int{},
	}
}

// workers runs workers until stop is called.
type workers struct {
	all  []*worker
	end  context.CancelFunc
	wait sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func work(c *cluster, seed uint64, round, n int) *workers {
	ctx, cancel := context.WithCancel(context.Background())
	ws := &workers{end: cancel}
	for id := range n {
		w := newWorker(c, seed, round, id)
		ws.all = append(ws.all, w)
		ws.wait.Go(func() {
			if err := w.run(ctx); err != nil {
				ws.mu.Lock()
				defer ws.mu.Unlock()
				ws.errs = append(ws.errs, fmt.Errorf("%s: %w", w.name, err))
			}
		})
	}
	return ws
}

// advance waits until each worker got some more requests acknowledged.
func (ws *workers) advance(c *cluster, more int64) {
	c.t.Helper()
	var before []int64
	for _, w := range ws.all {
		before = append(before, w.progress.Load())
	}
	c.await("acknowledged writes of all workers", func() error {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if len(ws.errs) > 0 {
			return nil // stop tells
		}
		for i, w := range ws.all {
			if w.progress.Load() < before[i]+more {
				return fmt.Errorf("%s has %d of %d", w.name, w.progress.Load()-before[i], more)
			}
		}
		return nil
	})
}

// stop ends the workers.
func (ws *workers) stop(c *cluster) {
	c.t.Helper()
	ws.end()
	ws.wait.Wait()
	for _, err := range ws.errs {
		c.fatalf("%v", err)
	}
}

// run sends requests until ctx ends. The last one may stay without an answer.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if len(w.sure) > 5000 { // enough to look at in every round
			time.Sleep(20 * time.Millisecond)
		}
		var err error
		switch k := w.r.IntN(100); {
		case k < 3:
			err = w.refusedWrite(ctx)
		case k < 9:
			err = w.deleteRange(ctx)
		case k < 11:
			err = w.dropSeries(ctx)
		case k < 13 && len(w.things) < 6:
			err = w.database(ctx)
		default:
			err = w.write(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outcome of a request.
type outcome struct {
	done  bool // acknowledged
	clean bool // no attempt has an unknown outcome
}

// send sends a request until a node acknowledges it or ctx ends. It goes to another
// node after each failure.
func (w *worker) send(ctx context.Context, request func(ctx context.Context, n *node) (answer, error)) (outcome, error) {
	o := outcome{clean: true}
	for {
		attempt, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(2*time.Second, cancel) })
		a, err := request(attempt, w.c.nodes[w.at])
		stop()
		cancel()
		switch {
		case err != nil:
			w.unanswered++
			w.reasons["no answer"]++
		case a.status == http.StatusNoContent, a.status == http.StatusOK && !strings.Contains(a.body, `"error"`):
			w.acked++
			w.progress.Add(1)
			o.done = true
			return o, nil
		case a.status == http.StatusServiceUnavailable:
			if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
				return o, fmt.Errorf("503 with Retry-After %q: %.300s", a.header.Get("Retry-After"), a.body)
			}
			w.refused++
			w.reasons[strings.TrimSpace(a.body)]++
		case a.status == http.StatusInternalServerError && strings.Contains(a.body, "input/output error"):
			w.unanswered++ // the node has lost its disk
			w.reasons["input/output error"]++
		case a.status == http.StatusOK: // a statement that failed
			w.refused++
			w.reasons[strings.TrimSpace(a.body)]++
		default:
			return o, fmt.Errorf("%s answers %d %.300s", w.c.nodes[w.at].name, a.status, a.body)
		}
		o.clean = false
		w.at = (w.at + 1) % len(w.c.nodes)
		select {
		case <-ctx.Done():
			return o, nil
		case <-time.After(time.Duration(20+w.r.IntN(100)) * time.Millisecond):
		}
	}
}

// note takes the outcome of a request that changes cells.
func (w *worker) note(o outcome, change map[cell]int64, touched []row) {
	if !o.clean {
		for _, r := range touched {
			w.frozen[r] = true
		}
	}
	if !o.done {
		w.maybe = append(w.maybe, change)
		return
	}
	w.apply(w.sure, change)
}

func (w *worker) apply(state, change map[cell]int64) {
	for c, v := range change {
		if v == gone {
			delete(state, c)
		} else {
			state[c] = v
		}
	}
}

// write stores some rows: new ones, and over some that are there.
func (w *worker) write(ctx context.Context) error {
	w.value++
	change := map[cell]int64{}
	var touched []row
	var b strings.Builder
	for range 1 + w.r.IntN(40) {
		var at row
		if len(w.rows) > 0 && w.r.IntN(5) == 0 {
			at = w.rows[w.r.IntN(len(w.rows))]
		} else {
			if w.r.IntN(50) == 0 {
				w.series++
			}
			at = row{1 + w.r.Int64N(w.series), w.next}
			w.next++
		}
		if w.frozen[at] || w.dead[at.series] || slices.Contains(touched, at) {
			continue
		}
		touched = append(touched, at)
		change[cell{at, 0}] = w.value
		fmt.Fprintf(&b, "%s,s=%d v=%di", w.measurement, at.series, w.value)
		if w.r.IntN(10) == 0 {
			f := 1 + w.r.IntN(1+int(w.value)/20)
			change[cell{at, f}] = w.value
			fmt.Fprintf(&b, ",f%d=%di", f, w.value)
		}
		fmt.Fprintf(&b, " %d\n", w.base+at.time)
	}
	if len(touched) == 0 {
		return nil
	}
	o, err := w.send(ctx, func(ctx context.Context, n *node) (answer, error) { return n.post(ctx, w.db, b.String()) })
	if err != nil {
		return err
	}
	for _, at := range touched {
		if !w.frozen[at] {
			w.rows = append(w.rows, at)
		}
	}
	w.note(o, change, touched)
	return nil
}

// refusedWrite sends a point that the server must not take: v is an integer.
func (w *worker) refusedWrite(ctx context.Context) error {
	if len(w.sure) == 0 || len(w.maybe)+len(w.dead) > 0 {
		return nil // v may have no type
	}
	attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a, err := w.c.nodes[w.at].post(attempt, w.db, fmt.Sprintf("%s,s=1 v=\"refused\" %d", w.measurement, w.base+w.next))
	w.next++
	if err == nil && a.status != http.StatusBadRequest && a.status != http.StatusServiceUnavailable {
		return fmt.Errorf("a write of another type of field: %d %s", a.status, a.body)
	}
	return nil
}

// deleteRange deletes some rows of a series.
func (w *worker) deleteRange(ctx context.Context) error {
	if w.next == 0 {
		return nil
	}
	s := 1 + w.r.Int64N(w.series)
	from := w.r.Int64N(w.next)
	to := min(from+w.r.Int64N(200), w.next-1)
	inside := func(r row) bool { return r.series == s && r.time >= from && r.time <= to }
	return w.remove(ctx, s, inside, fmt.Sprintf("DELETE FROM %s WHERE s = '%d' AND time >= %d AND time <= %d", w.measurement, s, w.base+from, w.base+to), false)
}

// dropSeries deletes a series.
func (w *worker) dropSeries(ctx context.Context) error {
	s := 1 + w.r.Int64N(w.series)
	return w.remove(ctx, s, func(r row) bool { return r.series == s }, fmt.Sprintf("DROP SERIES FROM %s WHERE s = '%d'", w.measurement, s), true)
}

func (w *worker) remove(ctx context.Context, series int64, inside func(row) bool, q string, whole bool) error {
	if w.dead[series] {
		return nil
	}
	for r := range w.frozen {
		if inside(r) {
			return nil
		}
	}
	change := map[cell]int64{}
	for c := range w.sure {
		if inside(c.row) {
			change[c] = gone
		}
	}
	var touched []row
	for _, r := range w.rows {
		if inside(r) {
			touched = append(touched, r)
		}
	}
	o, err := w.send(ctx, func(ctx context.Context, n *node) (answer, error) { return n.query(ctx, w.db, q) })
	if err != nil {
		return err
	}
	if whole && !o.clean {
		w.dead[series] = true
	}
	w.note(o, change, touched)
	return nil
}

// database makes a database, writes to it, drops it, makes it again and writes other
// points, as far as it knows what it does.
func (w *worker) database(ctx context.Context) error {
	name := fmt.Sprintf("%s_%d", w.name, len(w.things))
	w.things[name] = []int64{gone}
	steps := []struct {
		text string
		sum  int64
	}{
		{"CREATE DATABASE " + name, 0},
		{"m v=1i 1\nm v=2i 2", 3},
		{"DROP DATABASE " + name, gone},
		{"CREATE DATABASE " + name, 0},
		{"m v=10i 2\nm v=20i 3", 30},
	}
	for _, s := range steps[:1+w.r.IntN(len(steps))] {
		o, err := w.send(ctx, func(ctx context.Context, n *node) (answer, error) {
			if strings.Contains(s.text, "DATABASE") {
				return n.query(ctx, "", s.text)
			}
			return n.post(ctx, name, s.text)
		})
		switch {
		case err != nil:
			return err
		case !o.done:
			w.things[name] = append(w.things[name], s.sum)
			return nil
		}
		w.things[name] = []int64{s.sum}
		if !o.clean {
			return nil
		}
	}
	return nil
}

// found is what a node has of a worker's measurement.
func (w *worker) found(n *node) (map[cell]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t, err := n.read(ctx, w.db, fmt.Sprintf("SELECT * FROM %s GROUP BY s", w.measurement), 0)
	if err != nil {
		return nil, err
	}
	got := map[cell]int64{}
	for _, s := range t.Series {
		series, err := strconv.ParseInt(s.Tags["s"], 10, 64)
		if err != nil {
			return nil, err
		}
		for _, values := range s.Values {
			at, ok := integer(values[0])
			if !ok {
				return nil, fmt.Errorf("time %v is no number", values[0])
			}
			for i, column := range s.Columns[1:] {
				v, ok := integer(values[i+1])
				if !ok {
					continue
				}
				field := 0
				if rest, ok := strings.CutPrefix(column, "f"); ok {
					if field, err = strconv.Atoi(rest); err != nil {
						return nil, err
					}
				}
				got[cell{row{series, at - w.base}, field}] = v
			}
		}
	}
	return got, nil
}

// check compares what a node has with what the worker may find.
func (w *worker) check(n *node) error {
	got, err := w.found(n)
	if err != nil {
		return err
	}
	want := maps.Clone(w.sure)
	for _, change := range w.maybe {
		is := func(c cell, v int64) bool {
			g, ok := got[c]
			return ok && g == v || !ok && v == gone
		}
		done, not := 0, 0
		for c, v := range change {
			before, there := w.sure[c]
			if !there {
				before = gone
			}
			switch {
			case before == v:
			case is(c, v):
				done++
			default:
				not++
			}
		}
		if done > 0 && not > 0 {
			return fmt.Errorf("%s at %s: %d of the %d cells of a request without an answer are as it makes them", w.name, n.name, done, done+not)
		}
		if done > 0 {
			w.apply(want, change)
		}
	}
	for c, v := range want {
		if g, ok := got[c]; !ok {
			return fmt.Errorf("%s at %s: the acknowledged %v = %d is lost", w.name, n.name, c, v)
		} else if g != v {
			return fmt.Errorf("%s at %s: %v is %d, want %d", w.name, n.name, c, g, v)
		}
	}
	for c, g := range got {
		if _, ok := want[c]; !ok {
			return fmt.Errorf("%s at %s: %v = %d must not be there, latest value %d", w.name, n.name, c, g, w.value)
		}
	}
	return w.checkDatabases(n)
}

func (w *worker) checkDatabases(n *node) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t, err := n.read(ctx, "", "SHOW DATABASES", 0)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, s := range t.Series {
		for _, v := range s.Values {
			there[fmt.Sprint(v[0])] = true
		}
	}
	for name, allowed := range w.things {
		sum := int64(gone)
		if there[name] {
			if sum, err = n.count(name, "SELECT sum(v) FROM m", 0); err != nil {
				return err
			}
		}
		if !slices.Contains(allowed, sum) {
			return fmt.Errorf("database %s at %s: sum %d, want one of %v", name, n.name, sum, allowed)
		}
	}
	return nil
}

// settled is what stays of a worker after its round: a sum of all cells that no
// request of unknown outcome touches.
type settled struct {
	*worker
	frozen map[row]bool
	sum    uint64
}

func (w *worker) settle() *settled {
	s := &settled{worker: w, frozen: w.frozen, sum: sumOf(w.sure, w.frozen)}
	w.sure, w.rows, w.maybe = nil, nil, nil
	return s
}

// check compares a node with the sum.
func (s *settled) check(n *node) error {
	got, err := s.found(n)
	if err != nil {
		return err
	}
	if sum := sumOf(got, s.frozen); sum != s.sum {
		return fmt.Errorf("%s at %s: the content has changed since its round", s.name, n.name)
	}
	return s.checkDatabases(n)
}

// sumOf returns a sum of cells that does not depend on their order.
func sumOf(cells map[cell]int64, without map[row]bool) (sum uint64) {
	for c, v := range cells {
		if !without[c.row] {
			h := fnv.New64a()
			fmt.Fprintln(h, c.series, c.time, c.field, v)
			sum += h.Sum64()
		}
	}
	return sum
}
