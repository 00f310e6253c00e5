package function

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"

	"tsdbd/query/admission"
)

// look is how many rows the tests work on between two looks at the context.
const look = 1 << 16

func waves(n int) []float64 {
	y := make([]float64, n)
	for i := range y {
		y[i] = 10 + float64(i%7) + math.Sin(float64(i))
	}
	return y
}

// TestForecastStops: a stopped search does next to nothing more, however long
// the season.
func TestForecastStops(t *testing.T) {
	const season, windows = 400, 900
	ctx, cancel := context.WithCancel(t.Context())
	f := &forecast{season: season, y: waves(windows), stop: &admission.Stopper{Ctx: ctx, Every: look}}
	evaluated, after := 0, 0
	s := newSimplex(func(p []float64) float64 {
		if evaluated++; evaluated == 10 {
			cancel()
		}
		if f.stop.After(0) {
			after++
		}
		return f.squaredError(p)
	}, f.work, hwSeason+season)
	s.minimise(make([]float64, hwSeason+season), 1e-4)
	if !f.stop.After(0) || after > 1 || f.steps > int64(2*look) {
		t.Errorf("%d evaluations after the end, %d steps", after, f.steps)
	}
	g := &forecast{season: season, y: waves(windows), stop: &admission.Stopper{Ctx: ctx, Every: look}}
	g.fit()
	if !g.stop.After(0) || g.steps > int64(2*look) {
		t.Errorf("a fit whose context has ended took %d steps", g.steps)
	}
}

// TestForecastBounded: the steps of a forecast have an end, and its searches
// share their memory.
func TestForecastBounded(t *testing.T) {
	f := &forecast{season: 3, y: waves(50), stop: &admission.Stopper{Ctx: t.Context()}, steps: maxForecastSteps - 1000}
	f.fit()
	if !errors.Is(f.err, errForecastWork) || f.steps > maxForecastSteps+1000 {
		t.Errorf("%v after %d steps too many", f.err, f.steps-maxForecastSteps)
	}
	const season, windows = 100, 300
	corners := uint64(8 * (hwSeason + season) * (hwSeason + season))
	g := &forecast{season: season, y: waves(windows), stop: &admission.Stopper{Ctx: t.Context()}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g.fit()
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 3*corners {
		t.Errorf("%d bytes for a simplex of %d", bytes, corners)
	}
}
