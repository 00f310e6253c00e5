package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cold measures shards in an object store, and writes the report.
func cold(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(stderr, "%4.0fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	products, err := findProducts(o.servers, say, func(p *product) bool { return p.name == "tsdbd" })
	if err != nil {
		return err
	}
	if len(products) == 0 {
		return errors.New("-servers does not name tsdbd, which this is about")
	}
	dir, err := os.MkdirTemp(o.tmp, "tsdbd-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := openBucket()
	if err != nil {
		return err
	}
	defer store.Close()
	c := &coldRun{options: o, tsdbd: products[0], store: store, say: say, report: &coldReport{report: newReport(o, products)}}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"year", c.year}, {"series", c.series}, {"tails", c.tails}} {
		if !strings.Contains(part.name, o.only) {
			continue
		}
		c.part, c.dir = part.name, filepath.Join(dir, part.name)
		if err := os.Mkdir(c.dir, 0o755); err != nil {
			return err
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if err := os.RemoveAll(c.dir); err != nil {
			return err
		}
	}
	c.report.took = time.Since(began)
	return errors.Join(c.report.save(o.report, stdout), c.report.missed())
}

// coldRun is a run of all parts, one after another. A part has a directory, and a prefix in the
// store, of its own.
type coldRun struct {
	*options
	tsdbd     *product
	store     *bucket
	say       func(string, ...any)
	report    *coldReport
	part, dir string
}

// start starts the server of the part with more settings than the usual ones.
func (c *coldRun) start(ctx context.Context, env ...string) (*process, *target, error) {
	p := *c.tsdbd
	p.command = func(path, address, dir string) ([]string, []string) {
		args, usual := c.tsdbd.command(path, address, dir)
		return args, append(usual, env...)
	}
	s, err := start(ctx, &p, c.dir)
	if err != nil {
		return nil, nil, err
	}
	return s, &target{client: newClient(s.url, c.database, c.connections), pid: s.Pid(), data: s.dir, log: s.logBytes}, nil
}

// with starts a server, calls fn and stops the server.
func (c *coldRun) with(ctx context.Context, env []string, fn func(s *process, t *target) error) error {
	s, t, err := c.start(ctx, env...)
	if err != nil {
		return err
	}
	err = fn(s, t)
	t.client.close()
	return errors.Join(err, s.stop())
}

// mergeTime is how long the server may take to merge what was loaded.
const mergeTime = 20 * time.Minute

// load loads a workload and waits until it is merged. The lines are made while they are sent.
func (c *coldRun) load(ctx context.Context, t *target, w workload) error {
	if err := t.create(ctx); err != nil {
		return err
	}
	begin, before := time.Now(), usage(t.pid).cpu
	rows, err := c.send(ctx, t, w)
	if err != nil {
		return err
	}
	took, cpu := time.Since(begin), usage(t.pid).cpu-before
	quiet, err := t.settle(ctx, mergeTime)
	if err == nil && !quiet {
		err = fmt.Errorf("the server still merges after %s", mergeTime)
	}
	if err != nil {
		return err
	}
	c.say("  %.0f k rows/s, CPU %.2f us/row, settled %.2f", perSecond(rows, took)/1e3, perRow(cpu, rows), perRow(usage(t.pid).cpu-before, rows))
	wrong, err := t.check(ctx, w.count())
	if err == nil && wrong != "" {
		err = errors.New("count after the load: " + wrong)
	}
	return err
}

// send sends the rows of a workload on some connections, and returns their number.
func (c *coldRun) send(ctx context.Context, t *target, w workload) (rows int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bodies, free := make(chan []byte), make(chan []byte, 2*c.connections)
	ended := make(chan struct{}, c.connections)
	for range c.connections {
		free <- nil
		free <- nil
		go func() {
			defer func() { ended <- struct{}{} }()
			for b := range bodies {
				if err := t.client.write(ctx, url.Values{"db": {t.client.db}}, b); err != nil {
					cancel(err)
				}
				free <- b
			}
		}()
	}
	for ctx.Err() == nil {
		b, n := w.next((<-free)[:0], c.rows)
		if n == 0 {
			break
		}
		rows += n
		bodies <- b
	}
	close(bodies)
	for range c.connections {
		<-ended
	}
	return rows, context.Cause(ctx)
}

// chillTime is how long the server may take to bring everything to the store.
const chillTime = 20 * time.Minute

// chill has the server bring all shards to the store.
func (c *coldRun) chill(ctx context.Context, s *process, t *target) error {
	for begin := time.Now(); ; {
		_, err := t.client.do(ctx, http.MethodPost, "/api/tsdbd/cold", url.Values{"do": {"sweep"}}, nil)
		if ctx.Err() != nil || time.Since(begin) > chillTime {
			return fmt.Errorf("shards do not go to the store in %s: %w", chillTime, errors.Join(ctx.Err(), err))
		}
		if err == nil && diskOf(s.dir).files[".tsm"] == 0 {
			return nil
		}
		time.Sleep(time.Second)
	}
}

// disk is what a data directory takes, in bytes by kind of file.
type disk struct {
	files map[string]int64 // by suffix, outside of the log and the cache
	log   int64
	cache int64
}

// local returns all but the cache.
func (d *disk) local() (n int64) {
	for _, size := range d.files {
		n += size
	}
	return n + d.log
}

func diskOf(dir string) (d disk) {
	d.files = map[string]int64{}
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // removed meanwhile
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		below, _ := filepath.Rel(dir, name)
		switch top, _, _ := strings.Cut(filepath.ToSlash(below), "/"); top {
		case "wal":
			d.log += allocated(info)
		case coldCache:
			d.cache += info.Size()
		default:
			d.files[filepath.Ext(name)] += allocated(info)
		}
		return nil
	})
	return d
}

// watchCache looks at the size of the cache until the function it returns is called, which
// returns the largest.
func (c *coldRun) watchCache(dir string) func() int64 {
	most, stop, ended := int64(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, diskOf(dir).cache)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-ended
		return most
	}
}

// coldCache is the directory of the cache in that of the data.
const coldCache = "cold-cache"

// coldAsked is what a question has cost.
type coldAsked struct {
	gets, bytes int64
	cpu, took   time.Duration
	wrong       string
}

// aheadTime is how long ranges that are fetched ahead may come behind an answer.
const aheadTime = 50 * time.Millisecond

// ask asks a question and checks the answer.
func (c *coldRun) ask(t *target, conn *conn, q question) (a coldAsked, err error) {
	gets, bytes, cpu := c.store.gets.Load(), c.store.bytes.Load(), usage(t.pid).cpu
	got, wrong, err := t.ask(conn, q, true)
	time.Sleep(aheadTime)
	return coldAsked{c.store.gets.Load() - gets, c.store.bytes.Load() - bytes, usage(t.pid).cpu - cpu, got.took, wrong}, err
}

// asks asks some questions of one kind, each a number of times, one time behind the other. The
// first index of what it returns is that of the time.
func (c *coldRun) asks(ctx context.Context, t *target, questions []question, times int) (out [][]coldAsked, err error) {
	conn, err := dial(ctx, t.client.url)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	out = make([][]coldAsked, times)
	for _, q := range questions {
		for i := range times {
			a, err := c.ask(t, conn, q)
			if err != nil {
				return nil, fmt.Errorf("%.100s: %w", q.text, err)
			}
			if a.wrong != "" {
				c.say("  WRONG: %.200s: %s", q.text, a.wrong)
			}
			out[i] = append(out[i], a)
		}
	}
	return out, nil
}

// coldSum sums up what some questions have cost.
type coldSum struct {
	n, wrong                     int
	gets, most, bytes            int64
	cpu, took                    time.Duration // of all
	cpuEach, tookEach, bytesEach float64       // ms, ms and bytes of one
}

// least returns what was asked with the least CPU time: other load of the machine adds to it.
func least(asked [][]coldAsked) coldSum {
	var sums []coldSum
	for _, a := range asked {
		sums = append(sums, sumOf(a))
	}
	out := slices.MinFunc(sums, func(a, b coldSum) int { return cmp.Compare(a.cpuEach, b.cpuEach) })
	for _, s := range sums {
		out.most, out.wrong = max(out.most, s.most), max(out.wrong, s.wrong)
	}
	return out
}

func sumOf(asked []coldAsked) (s coldSum) {
	for _, a := range asked {
		s.n++
		if a.wrong != "" {
			s.wrong++
		}
		s.gets += a.gets
		s.most = max(s.most, a.gets)
		s.bytes += a.bytes
		s.cpu += a.cpu
		s.took += a.took
	}
	n := float64(max(s.n, 1))
	s.cpuEach, s.tookEach, s.bytesEach = ms(s.cpu)/n, ms(s.took)/n, float64(s.bytes)/n
	return s
}
