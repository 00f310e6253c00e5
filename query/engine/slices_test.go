package engine

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
)

// TestSlicesAreReadAhead emits a slice only once the next is being read, and
// wants no read under way after the end, however it comes.
func TestSlicesAreReadAhead(t *testing.T) {
	const n = 5
	stop := errors.New("stop")
	for _, c := range []struct {
		name             string
		badRead, badEmit int // that fail; -1: none
		panics           bool
		limit            int
		want             int // slices emitted
	}{
		{"all", -1, -1, false, -1, n},
		{"read fails", 3, -1, false, -1, 3},
		{"emit fails", -1, 2, false, -1, 3},
		{"emit panics", -1, 2, true, -1, 3},
		{"limit", -1, -1, false, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &exec{Budget: &read.Budget{Ctx: t.Context(), Workers: 2}}
			r := &levelRun{x: x, l: &plan.Level{Compiled: &plan.Compiled{}}}
			var reading atomic.Int32
			var started [n]chan struct{}
			for i := range started {
				started[i] = make(chan struct{})
			}
			emitted := 0
			out := &seriesOut{r: r, left: c.limit, emit: func(f *frame) error {
				if i := int(f.times[0]); i != emitted {
					t.Errorf("slice %d is emitted as number %d", i, emitted)
				}
				emitted++
				if emitted < n {
					select {
					case <-started[emitted]:
					case <-time.After(time.Minute):
						t.Error("the next slice is not being read")
					}
				}
				if emitted-1 == c.badEmit {
					if c.panics {
						panic("emit")
					}
					return stop
				}
				return nil
			}}
			var err error
			func() {
				defer func() {
					if p := recover(); (p != nil) != c.panics {
						t.Errorf("panic %v", p)
					}
				}()
				s := &stream{reader: &reader{r: r}, x: x, out: out}
				err = s.emit(n, func(i int) (map[int32]*rowset.Set, int64, error) {
					reading.Add(1)
					defer reading.Add(-1)
					close(started[i])
					time.Sleep(time.Millisecond) // still at it when an emit fails
					if i == c.badRead {
						return nil, 0, stop
					}
					x.Used.Add(100)
					return map[int32]*rowset.Set{0: {Times: []int64{int64(i)}}}, 100, nil
				})
			}()
			if bad := c.badRead >= 0 || c.badEmit >= 0 && !c.panics; (err != nil) != bad {
				t.Errorf("error %v", err)
			}
			if emitted != c.want {
				t.Errorf("%d slices emitted, want %d", emitted, c.want)
			}
			if reading.Load() != 0 {
				t.Error("a slice is still being read")
			}
			if c.name == "all" && x.Used.Load() != 0 {
				t.Errorf("%d bytes are not given back", x.Used.Load())
			}
		})
	}
}
