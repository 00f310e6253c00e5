package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tsdbd/internal/testkit/load"
)

// smallFigures are of one size of request on some connections.
type smallFigures struct {
	rows, connections int
	sent              int     // rows
	perSecond         float64 // rows
	latency           latencies
	cpu               time.Duration // of the server, a row
	rejected          int           // for lack of memory
	steady            time.Duration // how long, if until the server was quiet
}

func (f *smallFigures) name() string {
	name := fmt.Sprintf("%d rows, %d connections", f.rows, f.connections)
	if f.steady > 0 {
		name += fmt.Sprintf(" for %v, until quiet", f.steady)
	}
	return name
}

// smallRows are the sizes measured; each divides load.StreamLines.
var smallRows = []int{1, 10, 100, 1000, 10_000}

// steadyRows is the size of the requests that are sent for a longer time.
const steadyRows = 10

// smallLoad measures requests of every size, on one and on eight connections,
// each for o.each, and those of steadyRows for o.steady and until the server is quiet.
// Every connection writes hosts of its own, its times go on from size to size, so that
// no point is written twice.
func smallLoad(ctx context.Context, t *target, o *options, report func(*smallFigures)) error {
	var streams []*load.DevopsStream
	for i := range 8 {
		streams = append(streams, load.NewDevopsStream(i))
	}
	measure := func(rows, connections int, each, steady time.Duration) error {
		before := usage(t.pid).cpu
		f, err := smallRun(ctx, t.client, streams[:connections], rows, each, 0)
		if err == nil && steady > 0 {
			f.steady = steady
			_, err = t.settle(ctx, o.settle)
		}
		if err != nil {
			return fmt.Errorf("%d rows, %d connections: %w", rows, connections, err)
		}
		if f.sent > 0 {
			f.cpu = (usage(t.pid).cpu - before) / time.Duration(f.sent)
		}
		report(f)
		return nil
	}
	for _, rows := range smallRows {
		for _, connections := range []int{1, 8} {
			if err := measure(rows, connections, o.each, 0); err != nil {
				return err
			}
		}
	}
	return measure(steadyRows, len(streams), o.steady, o.steady)
}

// smallRun writes on a connection per stream for some time, at most limit rows a
// second; 0 is as many as the server takes.
func smallRun(ctx context.Context, c *client, streams []*load.DevopsStream, rows int, each time.Duration, limit float64) (*smallFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, each+30*time.Second)
	defer cancel()
	took := make([][]time.Duration, len(streams))
	sent, rejected := make([]int, len(streams)), make([]int, len(streams))
	errs := make([]error, len(streams))
	begin := time.Now()
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() {
			conn, err := dial(ctx, c.url)
			if err != nil {
				errs[i] = err
				return
			}
			defer conn.close()
			for time.Since(begin) < each && errs[i] == nil {
				if limit > 0 {
					due := time.Duration(float64(sent[i]*len(streams)) / limit * float64(time.Second))
					time.Sleep(due - time.Since(begin))
				}
				body, n := s.Next(rows)
				for at := time.Now(); ; {
					err := conn.write(c.db, body)
					if status, ok := err.(*statusError); ok && status.full() {
						rejected[i]++
						time.Sleep(20 * time.Millisecond)
						continue
					}
					took[i] = append(took[i], time.Since(at))
					errs[i] = err
					break
				}
				sent[i] += n
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	f := &smallFigures{rows: rows, connections: len(streams)}
	var all []time.Duration
	for i := range streams {
		all = append(all, took[i]...)
		f.sent += sent[i]
		f.rejected += rejected[i]
	}
	f.perSecond = float64(f.sent) / elapsed.Seconds()
	f.latency = summary(all)
	return f, errors.Join(errs...)
}
