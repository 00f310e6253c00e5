package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/internal/testkit/load"
)

// mixedClients is the number of dashboards that ask at a time, mixedWriters
// that of connections that write.
const (
	mixedClients = 32
	mixedWriters = 2
)

// mixedFigures compare ingest alone with ingest beside dashboards.
type mixedFigures struct {
	alone         float64 // rows a second, nobody asks
	asked, stored float64 // rows a second while dashboards ask
	writes        latencies
	queries       latencies
	perSecond     float64 // queries
	rejected      int     // writes for lack of memory
}

// mixedLoad writes as fast as the server takes it for the given time. Then it
// writes at half that rate for as long, while dashboards ask without pause for
// an hour of up to eight hosts.
func mixedLoad(ctx context.Context, c *client, rows int, each time.Duration) (*mixedFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*each+time.Minute)
	defer cancel()
	var streams []*load.DevopsStream
	for i := range mixedWriters {
		streams = append(streams, load.NewDevopsStream(i))
	}
	alone, err := smallRun(ctx, c, streams, rows, each, 0)
	if err != nil {
		return nil, err
	}
	f := &mixedFigures{alone: alone.perSecond, asked: alone.perSecond / 2}
	var stop atomic.Bool
	var wg sync.WaitGroup
	took := make([][]time.Duration, mixedClients)
	errs := make([]error, mixedClients)
	for i := range mixedClients {
		wg.Go(func() { took[i], errs[i] = mixedAsk(ctx, c, uint64(i), &stop) })
	}
	beside, err := smallRun(ctx, c, streams, rows, each, f.asked)
	stop.Store(true)
	wg.Wait()
	f.stored, f.writes, f.rejected = beside.perSecond, beside.latency, beside.rejected
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	f.queries = summary(all)
	f.perSecond = float64(len(all)) / each.Seconds()
	return f, errors.Join(append(errs, err)...)
}

// mixedAsk asks what a dashboard asks until stop is set.
func mixedAsk(ctx context.Context, c *client, seed uint64, stop *atomic.Bool) (took []time.Duration, err error) {
	conn, err := dial(ctx, c.url)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	r := rand.New(rand.NewPCG(seed, 15))
	for !stop.Load() {
		var hosts []string
		for range 1 << r.IntN(4) {
			hosts = append(hosts, fmt.Sprintf("hostname = 'sender_%d_%d'", r.IntN(mixedWriters), r.IntN(load.DevopsHosts)))
		}
		from := load.DevopsTime(r.IntN(720))
		text := fmt.Sprintf("SELECT mean(%s), max(%s) FROM %s WHERE (%s) AND time >= %d AND time < %d GROUP BY time(1m), hostname",
			load.DevopsFields[r.IntN(len(load.DevopsFields))], load.DevopsFields[r.IntN(len(load.DevopsFields))],
			load.DevopsMeasurement, strings.Join(hosts, " OR "), from, from+3600*1e9)
		at := time.Now()
		b, err := conn.get("/query", url.Values{"db": {c.db}, "q": {text}})
		if err != nil {
			return took, err
		}
		if _, err := parseAnswer(b); err != nil {
			return took, fmt.Errorf("%s: %w", text, err)
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

// writeMixed writes the figures as a table.
func writeMixed(w io.Writer, f *mixedFigures) error {
	_, err := fmt.Fprintf(w, `| ingest beside %d dashboards | |
|---|--:|
| k rows/s alone | %.0f |
| k rows/s asked / stored | %.0f / %.0f |
| share | %.2f |
| write p50 / p99 ms | %.1f / %.1f |
| writes rejected | %d |
| queries/s | %.0f |
| query p50 / p99 ms | %.1f / %.1f |
`, mixedClients, f.alone/1e3, f.asked/1e3, f.stored/1e3, f.stored/max(f.asked, 1), ms(f.writes.p50), ms(f.writes.p99), f.rejected,
		f.perSecond, ms(f.queries.p50), ms(f.queries.p99))
	return err
}
