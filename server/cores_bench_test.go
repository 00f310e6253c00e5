package server

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"tsdbd/internal/testkit/load"
	"tsdbd/store"
)

// BenchmarkScaleCores has many connections write rows of ten integers, as agents do, a
// thousand at a time. With -cpu 16 and -cpuprofile it shows what one goroutine does for all:
// the committer and the applier of the log.
func BenchmarkScaleCores(b *testing.B) {
	const hosts, steps, writers, rows = 1000, 200, 64, 1000
	var bodies [][]byte
	for g := load.NewDevops(hosts, steps); ; {
		body, n := g.Next(nil, rows)
		if n == 0 {
			break
		}
		bodies = append(bodies, body)
	}
	s := openScaled(b, store.Options{})
	perUnit(b, "row", hosts*steps, func() error {
		var at atomic.Int64
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
					errs[i] = w.send()
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}
