package query

import (
	"math"

	"tsdbd/column"
	"tsdbd/model"
)

// forecast is the Holt-Winters model: a level, a damped trend and, with a
// season, factors that the level is multiplied by.
type forecast struct {
	y      []float64 // one per window; NaN where there is none
	season int       // 0: none
	stop   *stopper
}

// The parameters of a model, as the minimiser moves them; the season's factors follow.
const (
	hwAlpha = iota // weight of a value in the level
	hwBeta         // weight of the level's change in the trend
	hwGamma        // weight of a value in the season
	hwPhi          // damping of the trend
	hwLevel
	hwTrend
	hwSeason
)

// holtWinters continues the windows of an aggregate.
func (l *level) holtWinters(c *call, in *cells) (*cells, error) {
	more, season := intArg(c, 1), intArg(c, 2)
	if season < 2 {
		season = 0
	}
	o := operand{v: in.v}
	values := o.floats()
	if len(values) < 2 || len(values) < season {
		return &cells{}, nil
	}
	every := l.win.every
	n := abs(in.times[len(in.times)-1]-in.times[0])/every + 1
	if n > maxForecast || int64(more) > maxForecast {
		return nil, errTooManyWindows
	}
	// The simplex has a corner more than there are parameters.
	if err := l.x.grow(8 * int64(hwSeason+season) * int64(hwSeason+season+1)); err != nil {
		return nil, err
	}
	f := &forecast{season: season, stop: &l.x.stop}
	for range n {
		f.y = append(f.y, math.NaN())
	}
	for i, t := range in.times {
		f.y[abs(t-in.times[0])/every] = values[i]
	}
	best := f.fit()
	all := f.run(best, more)
	out := &cells{v: column.Vector{Type: model.Float}}
	first := len(f.y)
	if c.fn == "holt_winters_with_fit" {
		first = 0
	}
	step := every
	if !l.asc {
		step = -every
	}
	for i := first; i < len(all); i++ {
		if !math.IsNaN(all[i]) {
			out.times = append(out.times, in.times[0]+int64(i)*step)
			out.v.Floats = append(out.v.Floats, all[i])
		}
	}
	return out, nil
}

// maxForecast bounds the windows a forecast reads and makes.
const maxForecast = 1 << 20

// fit looks for the parameters with the smallest squared error, from a grid of
// starting points.
func (f *forecast) fit() []float64 {
	m := f.season
	start := make([]float64, hwSeason+m)
	y := f.y
	if m > 0 {
		for i := range m {
			if !math.IsNaN(y[i]) {
				start[hwLevel] += y[i] / float64(m)
			}
			if m+i < len(y) && !math.IsNaN(y[i]) && !math.IsNaN(y[m+i]) {
				start[hwTrend] += (y[m+i] - y[i]) / float64(m*m)
			}
		}
		for i := range m {
			if !math.IsNaN(y[i]) {
				start[hwSeason+i] = y[i] / start[hwLevel]
			}
		}
	} else {
		start[hwLevel] = y[0] / 2
		if !math.IsNaN(y[1]) {
			start[hwTrend] = (y[1] - y[0]) / 2
		}
	}
	guesses := [2]float64{0.3, 0.7}
	var best []float64
	least := math.Inf(1)
	for i := range 16 {
		p := append([]float64(nil), start...)
		p[hwAlpha], p[hwBeta] = guesses[i>>3&1], guesses[i>>2&1]
		p[hwGamma], p[hwPhi] = guesses[i>>1&1], guesses[i&1]
		found, e := minimise(f.squaredError, p, 1e-4)
		if best == nil || e < least {
			best, least = found, e
		}
	}
	return best
}

func (f *forecast) squaredError(p []float64) float64 {
	if f.stop.after(len(f.y) + len(p)*len(p)) {
		return 0 // the search ends where all corners are equal
	}
	var sum float64
	for i, v := range f.run(p, 0) {
		if math.IsNaN(f.y[i]) {
			continue
		}
		if math.IsNaN(v) {
			return math.Inf(1)
		}
		sum += (v - f.y[i]) * (v - f.y[i])
	}
	return sum
}

// run computes the model's values for the windows and more after them. It
// brings the weights of p into [0, 1].
func (f *forecast) run(p []float64, more int) []float64 {
	for i := range hwLevel {
		p[i] = min(max(p[i], 0), 1)
	}
	alpha, beta, gamma, phi := p[hwAlpha], p[hwBeta], p[hwGamma], p[hwPhi]
	level, trend := p[hwLevel], p[hwTrend]
	m := f.season
	ring := append([]float64(nil), p[hwSeason:]...)
	at := m - 1
	out := make([]float64, len(f.y)+more)
	out[0] = f.y[0]
	damp, power := phi, 1.0
	y := out[0]
	for t := 1; t < len(out); t++ {
		s, ahead := 1.0, 1.0
		if m > 0 {
			s = ring[(t-m+at)%m]
			ahead = ring[(t-m+t%m+at)%m]
		}
		before := level + phi*trend
		next := alpha*(y/s) + (1-alpha)*before
		nextTrend := beta*(next-level) + (1-beta)*phi*trend
		factor := gamma*(y/before) + (1-gamma)*s
		y = (next + damp*nextTrend) * ahead
		level, trend = next, nextTrend
		power *= phi
		damp += power
		if m > 0 {
			ring[(t+at)%m] = factor
			at++
		}
		out[t] = y
	}
	return out
}

// minimise is the simplex method of Nelder and Mead: reflect the worst corner,
// expand, contract, or shrink towards the best, until the corners' values
// differ by less than epsilon.
func minimise(f func([]float64) float64, start []float64, epsilon float64) ([]float64, float64) {
	n := len(start)
	root := math.Sqrt(float64(n + 1))
	far := (root - 1 + float64(n)) / (float64(n) * math.Sqrt2)
	near := (root - 1) / (float64(n) * math.Sqrt2)
	corner := make([][]float64, n+1)
	value := make([]float64, n+1)
	for i := range corner {
		corner[i] = append([]float64(nil), start...)
		for j := range n {
			switch {
			case i == 0:
			case i-1 == j:
				corner[i][j] += far
			default:
				corner[i][j] += near
			}
		}
		value[i] = f(corner[i])
	}
	toward := func(from, to []float64, by float64) ([]float64, float64) {
		p := make([]float64, n)
		for j := range p {
			p[j] = from[j] + by*(to[j]-from[j])
		}
		return p, f(p)
	}
	for range 1000 {
		worst, best := 0, 0
		for i := range value {
			if value[i] > value[worst] {
				worst = i
			}
			if value[i] < value[best] {
				best = i
			}
		}
		second := best
		for i := range value {
			if value[i] > value[second] && value[i] < value[worst] {
				second = i
			}
		}
		center := make([]float64, n)
		for i := range corner {
			if i != worst {
				for j := range center {
					center[j] += corner[i][j] / float64(n)
				}
			}
		}
		p, v := toward(center, corner[worst], -1)
		switch {
		case v < value[best]:
			if q, w := toward(center, p, 2); w < v {
				p, v = q, w
			}
			corner[worst], value[worst] = p, v
		case v < value[second]:
			corner[worst], value[worst] = p, v
		default:
			var q []float64
			var w float64
			if v < value[worst] {
				q, w = toward(center, p, 0.5)
			} else {
				q, w = toward(center, corner[worst], 0.5)
			}
			if w < value[worst] {
				corner[worst], value[worst] = q, w
				break
			}
			for i := range corner {
				if i != best {
					for j := range n {
						corner[i][j] = corner[best][j] + (corner[i][j]-corner[best][j])/2
					}
				}
				value[i] = f(corner[i])
			}
		}
		var mean, spread float64
		for _, v := range value {
			mean += v / float64(n+1)
		}
		for _, v := range value {
			spread += (v - mean) * (v - mean) / float64(n)
		}
		if math.Sqrt(spread) < epsilon {
			break
		}
	}
	best := 0
	for i := range value {
		if value[i] < value[best] {
			best = i
		}
	}
	return corner[best], value[best]
}
