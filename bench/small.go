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
	perSecond         float64 // rows
	latency           latencies
	cpu               time.Duration // of the server, a row
	rejected          int           // for lack of memory
}

func (f *smallFigures) name() string {
	return fmt.Sprintf("%d rows, %d connections", f.rows, f.connections)
}

// smallRows are the sizes measured; each divides load.StreamLines.
var smallRows = []int{1, 10, 100, 1000, 10_000}

// smallLoad measures requests of every size, on one and on eight connections,
// each for the given time. Every connection writes hosts of its own, its times
// go on from size to size, so that no point is written twice.
func smallLoad(ctx context.Context, c *client, pid int, each time.Duration, report func(*smallFigures)) error {
	var streams []*load.DevopsStream
	for i := range 8 {
		streams = append(streams, load.NewDevopsStream(i))
	}
	for _, rows := range smallRows {
		for _, connections := range []int{1, 8} {
			before := usage(pid).cpu
			f, err := smallRun(ctx, c, streams[:connections], rows, each, 0)
			if err != nil {
				return fmt.Errorf("%d rows, %d connections: %w", rows, connections, err)
			}
			if n := f.perSecond * each.Seconds(); n > 0 {
				f.cpu = time.Duration(float64(usage(pid).cpu-before) / n)
			}
			report(f)
		}
	}
	return nil
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
	total := 0
	for i := range streams {
		all = append(all, took[i]...)
		total += sent[i]
		f.rejected += rejected[i]
	}
	f.perSecond = float64(total) / elapsed.Seconds()
	f.latency = summary(all)
	return f, errors.Join(errs...)
}
