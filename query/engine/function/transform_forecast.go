package function

import (
	"errors"
	"math"
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// forecast is the Holt-Winters model: a level, a damped trend and, with a
// season, factors that the level is multiplied by.
type forecast struct {
	y      []float64 // one per window; NaN where there is none
	season int       // 0: none
	stop   *admission.Stopper
	steps  int64 // values looked at
	err    error

	out, ring []float64 // memory of run
}

// maxForecastSteps bounds the values that a forecast looks at: about a minute.
const maxForecastSteps = 1 << 36

var errForecastWork = errors.New("holt_winters needs too much work: choose a shorter season or fewer windows")

// work counts steps and reports whether to stop.
func (f *forecast) work(steps int) bool {
	if f.steps += int64(steps); f.steps > maxForecastSteps && f.err == nil {
		f.err = errForecastWork
	}
	return f.stop.After(steps) || f.err != nil
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

var forecastArguments = arguments(3, 3,
	integer(1, 1, "expected integer argument as second arg in {name}", "second arg to {name} must be greater than 0, got {got}"),
	integer(2, 0, "expected integer argument as third arg in {name}", "third arg to {name} cannot be negative, got {got}"),
	evenWindows, windowed)

// forecasts continue the windows of an aggregate. InfluxDB's error names elapsed.
var forecasts = map[string]Function{
	"holt_winters": {Check: forecastArguments, refused: refusedAs("elapsed"), Gives: model.Float, series: func(x *Context, in *Cells) (*Cells, error) {
		return holtWinters(x, in, false)
	}},
	"holt_winters_with_fit": {Check: forecastArguments, refused: refusedAs("elapsed"), Gives: model.Float, series: func(x *Context, in *Cells) (*Cells, error) {
		return holtWinters(x, in, true)
	}},
}

// holtWinters continues the windows of an aggregate.
func holtWinters(x *Context, in *Cells, withFit bool) (*Cells, error) {
	more, season := IntArg(x.Expr, 1), IntArg(x.Expr, 2)
	if season < 2 {
		season = 0
	}
	o := expr.Operand{Vector: in.Values}
	values := o.Floats()
	if len(values) < 2 || len(values) < season {
		return &Cells{}, nil
	}
	every := x.Windows.Every
	n := expr.Abs(in.Times[len(in.Times)-1]-in.Times[0])/every + 1
	if n > maxForecast || int64(more) > maxForecast {
		return nil, window.ErrTooMany
	}
	// The simplex has one corner more than there are parameters, and a few spare points.
	// Each window has a value, the value of the model, and the value that is shown.
	corners := int64(hwSeason+season) * int64(hwSeason+season+8)
	if err := x.Grow(8 * (corners + 4*(n+int64(more)))); err != nil {
		return nil, err
	}
	f := &forecast{season: season, stop: x.Stop, y: slices.Repeat([]float64{math.NaN()}, int(n))}
	for i, t := range in.Times {
		// Of the values that distinct gives a window the first counts.
		if y := &f.y[expr.Abs(t-in.Times[0])/every]; math.IsNaN(*y) {
			*y = values[i]
		}
	}
	best := f.fit()
	if f.err != nil || f.stop.After(0) {
		return &Cells{}, f.err
	}
	all := f.run(best, more)
	out := &Cells{Values: column.Vector{Type: model.Float}}
	first := len(f.y)
	if withFit {
		first = 0
	}
	step := every
	if !x.Asc {
		step = -every
	}
	for i := first; i < len(all); i++ {
		if !math.IsNaN(all[i]) {
			out.Times = append(out.Times, in.Times[0]+int64(i)*step)
			out.Values.Floats = append(out.Values.Floats, all[i])
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
	s := newSimplex(f.squaredError, f.work, len(start))
	for i := range 16 {
		p := slices.Clone(start)
		p[hwAlpha], p[hwBeta] = guesses[i>>3&1], guesses[i>>2&1]
		p[hwGamma], p[hwPhi] = guesses[i>>1&1], guesses[i&1]
		found, e := s.minimise(p, 1e-4)
		if best == nil || e < least {
			best, least = slices.Clone(found), e
		}
		if f.work(0) {
			break
		}
	}
	return best
}

func (f *forecast) squaredError(p []float64) float64 {
	if f.work(len(f.y) + len(p)) {
		return 0 // the search ends
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
// brings the weights of p into [0, 1]. The values are valid until the next run.
func (f *forecast) run(p []float64, more int) []float64 {
	for i := range hwLevel {
		p[i] = min(max(p[i], 0), 1)
	}
	alpha, beta, gamma, phi := p[hwAlpha], p[hwBeta], p[hwGamma], p[hwPhi]
	level, trend := p[hwLevel], p[hwTrend]
	m := f.season
	f.ring = append(f.ring[:0], p[hwSeason:]...)
	f.out = slices.Grow(f.out[:0], len(f.y)+more)[:len(f.y)+more]
	ring, out := f.ring, f.out
	at := m - 1
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

// simplex is the method of Nelder and Mead: reflect the worst corner, expand,
// contract, or shrink towards the best.
type simplex struct {
	f      func([]float64) float64
	work   func(steps int) bool // counts steps and reports whether to stop
	corner [][]float64
	value  []float64
	center []float64
	spare  [][]float64 // two points that are no corners
}

func newSimplex(f func([]float64) float64, work func(int) bool, n int) *simplex {
	s := &simplex{f: f, work: work, value: make([]float64, n+1), center: make([]float64, n)}
	for range n + 1 {
		s.corner = append(s.corner, make([]float64, n))
	}
	s.spare = [][]float64{make([]float64, n), make([]float64, n)}
	return s
}

// toward sets a point that is no corner, on the way from one point to another,
// and returns it with its value.
func (s *simplex) toward(p, from, to []float64, by float64) ([]float64, float64) {
	for j := range p {
		p[j] = from[j] + by*(to[j]-from[j])
	}
	return p, s.f(p)
}

// swap puts a spare point in place of a corner, which becomes spare.
func (s *simplex) swap(corner, spare int, value float64) {
	s.corner[corner], s.spare[spare] = s.spare[spare], s.corner[corner]
	s.value[corner] = value
}

// minimise searches from start until the corners' values differ by less than
// epsilon, or it is stopped. The point it returns is valid until the next call.
func (s *simplex) minimise(start []float64, epsilon float64) ([]float64, float64) {
	n := len(start)
	root := math.Sqrt(float64(n + 1))
	far := (root - 1 + float64(n)) / (float64(n) * math.Sqrt2)
	near := (root - 1) / (float64(n) * math.Sqrt2)
	for i, c := range s.corner {
		copy(c, start)
		for j := range n {
			switch {
			case i == 0:
			case i-1 == j:
				c[j] += far
			default:
				c[j] += near
			}
		}
		if s.value[i] = s.f(c); s.work(n) {
			return start, math.Inf(1)
		}
	}
	for range 1000 {
		if s.step(); s.work(n) {
			break
		}
		var mean, spread float64
		for _, v := range s.value {
			mean += v / float64(n+1)
		}
		for _, v := range s.value {
			spread += (v - mean) * (v - mean) / float64(n)
		}
		if math.Sqrt(spread) < epsilon {
			break
		}
	}
	best := 0
	for i := range s.value {
		if s.value[i] < s.value[best] {
			best = i
		}
	}
	return s.corner[best], s.value[best]
}

// step moves one corner, or all towards the best.
func (s *simplex) step() {
	value := s.value
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
	center := s.center
	clear(center)
	for i, c := range s.corner {
		if i == worst {
			continue
		}
		for j := range center {
			center[j] += c[j] / float64(len(center))
		}
		if s.work(len(center)) {
			return
		}
	}
	p, v := s.toward(s.spare[0], center, s.corner[worst], -1)
	switch {
	case v < value[best]:
		if _, w := s.toward(s.spare[1], center, p, 2); w < v {
			s.swap(worst, 1, w)
		} else {
			s.swap(worst, 0, v)
		}
		return
	case v < value[second]:
		s.swap(worst, 0, v)
		return
	case !(v < value[worst]): // also what is no number
		p = s.corner[worst]
	}
	if _, w := s.toward(s.spare[1], center, p, 0.5); w < value[worst] {
		s.swap(worst, 1, w)
		return
	}
	for i, c := range s.corner {
		if i != best {
			for j := range c {
				c[j] = s.corner[best][j] + (c[j]-s.corner[best][j])/2
			}
		}
		if value[i] = s.f(c); s.work(len(c)) {
			return
		}
	}
}
