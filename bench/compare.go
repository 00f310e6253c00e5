package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// compare measures the workloads on every installed server, one after another,
// and writes the report.
func compare(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(stderr, "%4.0fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	dir, err := os.MkdirTemp(o.tmp, "tsdbd-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	products, err := findProducts(o.servers, say, func(p *product) bool { return p.name != "prometheus" }) // it takes no lines
	if err != nil {
		return err
	}
	c := &comparison{options: o, dir: dir, say: say}
	rep := newReport(o, products)
	for _, name := range strings.Split(o.workloads, ",") {
		results, err := c.workload(ctx, name, products)
		if err != nil {
			return err
		}
		rep.results = append(rep.results, results...)
	}
	rep.took = time.Since(began)
	out := stdout
	if o.report != "" {
		f, err := os.Create(o.report)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	if err := rep.write(out); err != nil {
		return err
	}
	for _, r := range rep.results {
		if r.product.name == "tsdbd" && (r.err != nil || r.wrong()) {
			return errors.Join(fmt.Errorf("%s on tsdbd: a request failed or was answered wrongly, see the report", r.workload), r.err)
		}
	}
	return nil
}

type comparison struct {
	*options
	dir string
	say func(string, ...any)
}

// workload measures one workload on all servers. A server that fails does not
// stop the others.
func (c *comparison) workload(ctx context.Context, name string, products []*product) (out []*result, err error) {
	var w workload
	var phases []phase
	if name != "small" {
		if w, err = newWorkload(name, c.options); err != nil {
			return nil, err
		}
		phases = collect(w, c.rows)
	}
	for _, p := range products {
		if p.limit && name != "small" {
			continue
		}
		r := &result{product: p, workload: name}
		out = append(out, r)
		dir := filepath.Join(c.dir, name+"-"+p.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		c.say("%s: %s", name, p.name)
		if name == "small" {
			r.err = c.small(ctx, r, dir)
		} else {
			r.err = c.run(ctx, r, dir, w, phases)
		}
		if r.err != nil {
			c.say("%s: %s: %v", name, p.name, r.err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *comparison) target(s *process, connections int) *target {
	return &target{client: newClient(s.url, c.database, connections), pid: s.Pid(), data: s.dir, log: s.logBytes, metrics: s.metrics}
}

// run loads, starts the server again and asks.
func (c *comparison) run(ctx context.Context, r *result, dir string, w workload, phases []phase) error {
	s, err := start(ctx, r.product, dir)
	if err != nil {
		return err
	}
	t := c.target(s, c.connections)
	profiled := c.profile(ctx, s, r.workload+"-load")
	f, err := t.load(ctx, c.options, w, phases)
	t.client.close()
	r.load = f
	err = errors.Join(err, profiled())
	begin := time.Now()
	if err := errors.Join(err, s.stop()); err != nil {
		return err
	}
	f.stop = time.Since(begin)
	f.diskSettled = max(f.diskSettled, diskBytes(s.dir)) // VictoriaMetrics may have kept a part in memory
	c.say("  %.0f k rows/s, CPU %.2f us/row, settled %.2f, quiet after %.0f s", perSecond(f.rows, f.took)/1e3, perRow(f.cpu, f.rows), perRow(f.settled, f.rows), f.settledTook.Seconds())

	begin = time.Now()
	if s, err = start(ctx, r.product, dir); err != nil {
		return err
	}
	f.ready = time.Since(begin)
	t = c.target(s, 1)
	wrong, err := t.check(ctx, w.probe())
	f.first = time.Since(begin)
	if wrong != "" && f.wrongCount == "" {
		f.wrongCount = "first answer: " + wrong
	}
	f.anonRestarted = usage(s.Pid()).anon
	profiled = c.profile(ctx, s, r.workload+"-query")
	if err == nil {
		r.queries, err = t.queries(ctx, c.options, w)
	}
	t.client.close()
	err = errors.Join(err, profiled())
	return errors.Join(err, s.stop())
}

func (c *comparison) small(ctx context.Context, r *result, dir string) error {
	s, err := start(ctx, r.product, dir)
	if err != nil {
		return err
	}
	t := c.target(s, 8)
	if err = t.create(ctx); err == nil {
		err = smallLoad(ctx, t, c.options, func(f *smallFigures) { r.small = append(r.small, f) })
	}
	t.client.close()
	return errors.Join(err, s.stop())
}
