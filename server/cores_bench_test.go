package server

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"tsdbd/internal/testkit/load"
	"tsdbd/store"
)

// BenchmarkScaleCores has many connections write rows of ten integers, as agents do, a
// thousand at a time. With -cpu 16 and -cpuprofile it shows what one goroutine does for all:
// the committer and the applier of the log. A request has one step of all hosts.
func BenchmarkScaleCores(b *testing.B) {
	const hosts, steps, writers = 1000, 200, 64
	var bodies [][]byte
	for g := load.NewDevops(hosts, steps); ; {
		body, n := g.Next(nil, hosts)
		if n == 0 {
			break
		}
		bodies = append(bodies, body)
	}
	s, step := openScaled(b, store.Options{}), 0
	perUnit(b, "row", hosts*steps, func() error {
		var at atomic.Int64
		first := step
		step += steps // the next pass is later
		var wg sync.WaitGroup
		errs := make([]error, writers)
		for i := range writers {
			wg.Go(func() {
				w := &scaleWriter{s: s, unit: 1}
				for errs[i] == nil {
					k := int(at.Add(1)) - 1
					if k >= len(bodies) {
						return
					}
					w.body = append(w.body[:0], bodies[k]...)
					text := strconv.AppendInt(nil, load.DevopsTime(first+k), 10)
					for i, c := range w.body {
						if c == '\n' {
							copy(w.body[i-len(text):], text)
						}
					}
					errs[i] = w.send()
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}
