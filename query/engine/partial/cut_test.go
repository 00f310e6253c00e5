package partial

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/query/window"
)

// TestCutsMatchWindows holds the cuts of regular and of any times against the
// window of each row, up to both ends of time.
func TestCutsMatchWindows(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 6))
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		win := &window.Windows{Every: []int64{1, 10e9, 60e9, 90e9, 3600e9, 86400e9, 1 << 61}[rnd.IntN(7)]}
		win.Shift = rnd.Int64N(win.Every)
		from := rnd.Int64N(4e18) - 2e18
		switch k := rnd.IntN(8); {
		case k == 0:
			from = model.MinTime + rnd.Int64N(1e12)
		case k == 1:
			from = model.MaxTime - rnd.Int64N(1e12)
		case k == 2 && win.Every >= 60e9 && win.Every <= 86400e9:
			win.Loc = berlin
			from = 1616893200e9 + rnd.Int64N(86400e9)
		}
		n := 2 + rnd.IntN(200)
		step := []int64{1, 7, 1e9, 10e9, 15e9, 3600e9, 1 << 55}[rnd.IntN(7)]
		if win.Loc != nil {
			step %= 7200e9 // few windows: they are counted out
		}
		step = max(1, min(step, (model.MaxTime-max(from, 0))/int64(n)))
		times := make([]int64, 0, n)
		for i := range n {
			if at := from + int64(i)*step; at >= from && at <= model.MaxTime {
				times = append(times, at)
			}
		}
		p := &Plan{Windows: win, Slots: make([]Slot, 1)}
		last := times[len(times)-1]
		first, end := p.Prepare(model.TimeRange{Min: from, Max: last})
		w := NewWorker(nil, p, model.AllTime, NewTable(1, false, first, end))
		check := func(how string) {
			lo := 0
			for i := range w.cuts {
				c := &w.cuts[i]
				if c.lo != lo || c.hi <= lo || c.rows < 1 || (c.hi-lo)/c.rows*c.rows != c.hi-lo || len(c.st) != (c.hi-lo)/c.rows {
					t.Fatalf("seed %d: %s: %+v: cut of rows %d to %d after row %d", seed, how, win, c.lo, c.hi, lo)
				}
				for i, at := range times[c.lo:c.hi] {
					if want := w.t.At(3, p.number(win.Start(at))); &want[0] != &c.st[i/c.rows] {
						t.Fatalf("seed %d: %s: %+v: time %d is not in its window", seed, how, win, at)
					}
				}
				lo = c.hi
			}
			if lo != len(times) {
				t.Fatalf("seed %d: %s: %+v: cuts end at row %d of %d", seed, how, win, lo, len(times))
			}
		}
		if len(times) > 1 {
			w.cutRegular(3, times[0], step, len(times))
			check("regular")
		}
		w.cutTimes(3, times)
		check("times")
		times = slices.DeleteFunc(times, func(int64) bool { return rnd.IntN(3) == 0 })
		w.cutTimes(3, times) // the walk goes back
		check("gaps")
	}
}
