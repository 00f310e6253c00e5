package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// promRun measures PromQL on servers that run at the same time.
type promRun struct {
	*options
	dir     string
	say     func(string, ...any)
	servers []*promServer
	results []*promResult
}

// promServer is a server with its data of one size.
type promServer struct {
	*product
	*process
	target *target
	conns  []*conn
}

// promResult is what was measured of one size and state of the data.
type promResult struct {
	size    promSize
	state   string
	loads   []promLoad // of a fresh state
	queries []*promFigures
}

// promLoad is what the load of a size took a server.
type promLoad struct {
	server       string
	samples      int
	first        int           // samples of series that were new
	took         time.Duration // in requests
	fresh        time.Duration // CPU time of the first
	cpu, settled time.Duration // to the last acknowledgement, and until quiet
	disk         int64         // bytes when quiet
	quiet        bool
}

// promFigures are those of a query, by server.
type promFigures struct {
	promQuery
	of []*promFigure
}

// promFigure is what a query took a server.
type promFigure struct {
	server string
	bytes  int
	rounds int
	asked  int
	cpu    time.Duration // of all that were asked
	wall   []time.Duration
	peak   int64 // most resident memory
	wrong  string
	first  promSamples // answer of the warm-up, until it is compared
}

// perQuery is the CPU time of one query.
func (f *promFigure) perQuery() time.Duration { return f.cpu / time.Duration(max(f.asked, 1)) }

// How long a server is asked a query in a round, and how often.
const (
	promSlot   = 200 * time.Millisecond
	promRounds = 5
	promFewest = 2
	promLong   = 2 * time.Second // a server is asked a query no longer than this after promFewest rounds
)

// promql starts the servers, loads each size into all of them, and asks.
func promql(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp(o.tmp, "tsdbd-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &promRun{options: o, dir: dir, say: func(format string, args ...any) {
		fmt.Fprintf(stderr, "%4.0fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}}
	products, err := findProducts(o.servers, r.say, func(p *product) bool { return p.remoteWrite != nil })
	if err != nil {
		return err
	}
	rep := newReport(o, products)
	for i, size := range promSizes {
		if o.sizes != "" && !slices.Contains(strings.Split(o.sizes, ","), fmt.Sprint(i+1)) {
			continue
		}
		if err := r.size(ctx, size.scaled(o.scale), products); err != nil {
			return fmt.Errorf("%s: %w", size.name, err)
		}
		rep.took = time.Since(began)
		if err := r.report(rep, stdout); err != nil { // what is measured is not lost if the next size fails
			return err
		}
	}
	for _, res := range r.results {
		for _, q := range res.queries {
			for _, f := range q.of {
				if f.server == "tsdbd" && f.wrong != "" {
					return fmt.Errorf("%s, %s: %s: %s", res.size.name, res.state, q.name, f.wrong)
				}
			}
		}
	}
	return nil
}

// report writes the report of what is measured so far.
func (r *promRun) report(rep *report, stdout io.Writer) error {
	var b bytes.Buffer
	if err := rep.writeProm(&b, r.results); err != nil {
		return err
	}
	if r.options.report == "" {
		_, err := b.WriteTo(stdout)
		return err
	}
	return os.WriteFile(r.options.report, b.Bytes(), 0o644)
}

// size measures one set of series: as it was just written, and when it is in files.
func (r *promRun) size(ctx context.Context, size promSize, products []*product) (err error) {
	dir := filepath.Join(r.dir, fmt.Sprint(len(r.results)))
	defer func() { err = errors.Join(err, r.stop(), os.RemoveAll(dir)) }()
	if size.two {
		products = slices.DeleteFunc(slices.Clone(products), func(p *product) bool { return !p.remoteWrite2 })
	}
	fresh := &promResult{size: size, state: "just written"}
	r.results = append(r.results, fresh)
	for _, p := range products {
		if err := r.start(ctx, p, dir, true); err != nil {
			return err
		}
		load, err := r.load(ctx, r.servers[len(r.servers)-1], size)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fresh.loads = append(fresh.loads, *load)
		r.say("%s: %s: %.0f k samples/s, CPU %.2f us/sample", size.name, p.name, perSecond(load.samples, load.took)/1e3, perRow(load.cpu, load.samples))
	}
	if err := r.ask(ctx, fresh); err != nil {
		return err
	}
	if err := r.stop(); err != nil {
		return err
	}
	stored := &promResult{size: size, state: "after a restart, in files"}
	r.results = append(r.results, stored)
	for i, p := range products {
		if err := r.start(ctx, p, dir, false); err != nil {
			return err
		}
		s := r.servers[i]
		if fresh.loads[i].quiet, err = s.target.settle(ctx, r.settle); err != nil {
			return err
		}
		fresh.loads[i].settled = fresh.loads[i].cpu + usage(s.Pid()).cpu
		fresh.loads[i].disk = diskBytes(s.dir)
		r.say("%s: %s: quiet, %.2f bytes/sample", size.name, p.name, float64(fresh.loads[i].disk)/float64(fresh.loads[i].samples))
	}
	return r.ask(ctx, stored)
}

// start starts a server and connects to it.
func (r *promRun) start(ctx context.Context, p *product, dir string, fresh bool) error {
	if fresh && p.fresh != nil {
		other := *p
		other.command = p.fresh
		p = &other
	}
	s, err := start(ctx, p, filepath.Join(dir, p.name))
	if err != nil {
		return err
	}
	t := &target{client: newClient(s.url, r.database, 1), pid: s.Pid(), data: s.dir, log: s.logBytes, metrics: p.name == "victoria-metrics"}
	one := &promServer{product: p, process: s, target: t}
	r.servers = append(r.servers, one)
	return nil
}

// stop ends all servers.
func (r *promRun) stop() (err error) {
	for _, s := range r.servers {
		s.hangUp()
		s.target.client.close()
		err = errors.Join(err, s.process.stop())
	}
	r.servers = nil
	return err
}

// load sends a size to a server.
func (r *promRun) load(ctx context.Context, s *promServer, size promSize) (*promLoad, error) {
	f := &promLoad{server: s.product.name}
	if s.product.name == "tsdbd" {
		if err := s.target.create(ctx); err != nil {
			return nil, err
		}
	}
	path, params := s.product.remoteWrite(r.database)
	before := usage(s.Pid()).cpu
	err := size.requests(func(req promRequest) error {
		if !req.fresh && f.fresh == 0 {
			f.first, f.fresh = f.samples, usage(s.Pid()).cpu-before
		}
		begin := time.Now()
		if err := s.target.client.remoteWrite(ctx, path, params, req); err != nil {
			return err
		}
		f.took += time.Since(begin)
		f.samples += req.samples
		return nil
	})
	f.cpu = usage(s.Pid()).cpu - before
	if err == nil && s.target.metrics { // it shows new data after a second
		_, err = s.target.client.do(ctx, http.MethodGet, "/internal/force_flush", nil, nil)
	}
	return f, err
}

// ask asks all queries of all servers: each once to warm up and to compare the
// answers, then in rounds, in each of which the servers come in another order.
func (r *promRun) ask(ctx context.Context, res *promResult) error {
	order := rand.New(rand.NewPCG(838, 15))
	for _, q := range res.size.queries() {
		if !strings.Contains(q.name, r.only) {
			continue
		}
		fs := &promFigures{promQuery: q}
		res.queries = append(res.queries, fs)
		for _, s := range r.servers {
			f := &promFigure{server: s.product.name}
			fs.of = append(fs.of, f)
			if err := s.redial(ctx, len(q.parts())); err != nil { // some close a connection after a while
				return err
			}
			answers, err := s.get(q, r.database)
			if err == nil {
				err = f.read(q, answers)
			}
			if err != nil {
				if f.wrong = fmt.Sprintf("%.300s", err.Error()); s.Ended() || ctx.Err() != nil {
					return errors.Join(fmt.Errorf("%s: %s", s.product.name, q.name), err, ctx.Err())
				}
				if err := s.redial(ctx, len(q.parts())); err != nil {
					return err
				}
			}
		}
		fs.compare(res.size)
		for round := range promRounds {
			for _, i := range order.Perm(len(r.servers)) {
				f := fs.of[i]
				if f.bytes == 0 || round >= promFewest && sum(f.wall) > promLong {
					continue
				}
				if err := f.round(r.servers[i], q, r.database); err != nil {
					if f.wrong = fmt.Sprintf("%.300s", err.Error()); r.servers[i].Ended() || ctx.Err() != nil {
						return errors.Join(err, ctx.Err())
					}
					if err := r.servers[i].redial(ctx, len(q.parts())); err != nil {
						return err
					}
				}
			}
		}
		for _, f := range fs.of {
			r.say("  %s: %s: CPU %.2f ms, %d bytes, %d times %s", q.name, f.server, ms(f.perQuery()), f.bytes, f.asked, f.wrong)
		}
	}
	return nil
}

func sum(of []time.Duration) (n time.Duration) {
	for _, d := range of {
		n += d
	}
	return n
}

// redial replaces the connections to the server.
func (s *promServer) redial(ctx context.Context, connections int) error {
	s.hangUp()
	for range connections {
		c, err := dial(ctx, s.url)
		if err != nil {
			return err
		}
		s.conns = append(s.conns, c)
	}
	return nil
}

func (s *promServer) hangUp() {
	for _, c := range s.conns {
		c.close()
	}
	s.conns = nil
}

// get asks all parts of a query at once. The answers are valid until the next call.
func (s *promServer) get(q promQuery, db string) ([][]byte, error) {
	parts := q.parts()
	answers, errs := make([][]byte, len(parts)), make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { answers[i], errs[i] = s.conns[i].get(part.request(s.product, db)) })
	}
	wg.Wait()
	return answers, errors.Join(errs...)
}

// read keeps the answers of the warm-up.
func (f *promFigure) read(q promQuery, answers [][]byte) error {
	f.bytes, f.first = size(answers), promSamples{}
	for i, part := range q.parts() {
		samples, err := part.parse(answers[i])
		if err != nil {
			return err
		}
		for name, values := range samples {
			f.first[strings.Repeat("\n", i)+name] = values
		}
	}
	return nil
}

// size is the number of bytes of answers.
func size(answers [][]byte) (n int) {
	for _, b := range answers {
		n += len(b)
	}
	return n
}

// sizeNoise is by what share the lengths of answers to one query may differ: sums whose
// last digits change from one time to the next are longer and shorter.
const sizeNoise = 0.02

// round asks a query for promSlot.
func (f *promFigure) round(s *promServer, q promQuery, db string) error {
	resetPeak(s.Pid())
	before, begin := usage(s.Pid()).cpu, time.Now()
	for n := 0; n == 0 || time.Since(begin) < promSlot; n++ {
		at := time.Now()
		answers, err := s.get(q, db)
		if err != nil {
			return err
		}
		f.wall = append(f.wall, time.Since(at))
		f.asked++
		got := size(answers)
		if off := math.Abs(float64(got - f.bytes)); off > 16 && off > sizeNoise*float64(f.bytes) {
			f.wrong = fmt.Sprintf("an answer of %d bytes after one of %d", got, f.bytes)
		}
	}
	after := usage(s.Pid())
	f.cpu += after.cpu - before
	f.peak = max(f.peak, after.peak)
	f.rounds++
	return nil
}

// compare compares the answers of a query: those of Prometheus with the others, and
// some with what was written.
func (fs *promFigures) compare(size promSize) {
	var reference *promFigure
	for _, f := range fs.of {
		if f.wrong == "" && fs.expr == promMetric && fs.step == 0 {
			f.wrong = size.promRaw(f.first)
		}
		if f.server == "prometheus" && f.wrong == "" {
			reference = f
		}
	}
	for _, f := range fs.of {
		if reference != nil && f != reference && f.wrong == "" {
			f.wrong = fs.promDiffers(f.first, reference.first, f.server == "victoria-metrics")
		}
	}
	for _, f := range fs.of {
		f.first = nil
	}
}

// resetPeak has the kernel forget the most memory that a process has had.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // else the peak is that since its start
}
