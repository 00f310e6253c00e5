package window

import (
	"math"
)

// fold aggregates the steps of the series of one group. It belongs to one
// goroutine.
type fold struct {
	op     string
	param  float64
	values []float64 // Absent: no series has had a value
	lost   []float64 // of sum
	means  []mean
	count  []float64
	square []float64 // the squared distances from the mean, of stddev and stdvar
	center []float64 // their mean
	all    [][]float64
}

// foldWords are the aggregations that fold, with how many words a fold takes for each
// step, without what Add keeps.
var foldWords = map[string]int64{
	"sum": 2, "avg": 5, "stddev": 5, "stdvar": 5, "min": 1, "max": 1, "group": 1, "count": 1, "quantile": 1,
}

// newFold returns a fold of an aggregation in foldWords. param is of quantile.
func newFold(op string, steps int, param float64) *fold {
	f := &fold{op: op, param: param, values: make([]float64, steps)}
	switch op {
	case "sum":
		f.lost = make([]float64, steps)
	case "avg":
		f.means = make([]mean, steps)
	case "stddev", "stdvar":
		f.count, f.square, f.center = make([]float64, steps), make([]float64, steps), make([]float64, steps)
	}
	f.Reset()
	return f
}

// Keeps returns how many bytes the fold keeps of each series.
func (f *fold) Keeps() int64 {
	if f.op == "quantile" {
		return 8 * int64(len(f.values))
	}
	return 0
}

// Kept returns how many bytes the fold keeps of all series.
func (f *fold) Kept() int64 { return f.Keeps() * int64(len(f.all)) }

// Reset begins another group.
func (f *fold) Reset() {
	for i := range f.values {
		f.values[i] = Absent()
	}
	f.all = nil
}

// Add adds the steps of a series. Sums depend on the order of the series.
func (f *fold) Add(steps []float64) {
	switch f.op {
	case "sum":
		for i, v := range steps {
			switch {
			case IsAbsent(v):
			case IsAbsent(f.values[i]):
				f.values[i], f.lost[i] = v, 0
			default:
				f.values[i], f.lost[i] = add(v, f.values[i], f.lost[i])
			}
		}
	case "avg":
		for i, v := range steps {
			switch {
			case IsAbsent(v):
			case IsAbsent(f.values[i]):
				f.values[i], f.means[i] = v, mean{count: 1, sum: v}
			default:
				f.means[i].add(v)
			}
		}
	case "min":
		for i, v := range steps {
			if old := f.values[i]; !IsAbsent(v) && (old > v || old != old) {
				f.values[i] = v
			}
		}
	case "max":
		for i, v := range steps {
			if old := f.values[i]; !IsAbsent(v) && (old < v || old != old) {
				f.values[i] = v
			}
		}
	case "group":
		for i, v := range steps {
			if !IsAbsent(v) {
				f.values[i] = 1
			}
		}
	case "count":
		for i, v := range steps {
			switch {
			case IsAbsent(v):
			case IsAbsent(f.values[i]):
				f.values[i] = 1
			default:
				f.values[i]++
			}
		}
	case "stddev", "stdvar":
		f.spread(steps)
	case "quantile":
		f.all = append(f.all, append([]float64(nil), steps...))
	}
}

// spread adds to the squared distances from the mean.
func (f *fold) spread(steps []float64) {
	for i, v := range steps {
		if IsAbsent(v) {
			continue
		}
		if IsAbsent(f.values[i]) {
			f.values[i], f.count[i], f.center[i], f.square[i] = v, 1, v, 0
			if v-v != 0 { // NaN or infinite
				f.square[i] = math.NaN()
			}
			continue
		}
		f.count[i]++
		delta := v - f.center[i]
		f.center[i] += delta / f.count[i]
		f.square[i] += delta * (v - f.center[i])
	}
}

// Steps returns the aggregate at each step, Absent where there is none, and how
// many there are. The slice is valid until Reset.
func (f *fold) Steps() ([]float64, int) {
	if f.op == "quantile" {
		f.quantiles()
	}
	found := 0
	for i, v := range f.values {
		if IsAbsent(v) {
			continue
		}
		found++
		switch f.op {
		case "sum":
			f.values[i] += f.lost[i]
		case "avg":
			f.values[i] = f.means[i].value()
		case "stdvar":
			f.values[i] = f.square[i] / f.count[i]
		case "stddev":
			f.values[i] = math.Sqrt(f.square[i] / f.count[i])
		}
	}
	return f.values, found
}

func (f *fold) quantiles() {
	var at floats
	for i := range f.values {
		at = at[:0]
		for _, steps := range f.all {
			if !IsAbsent(steps[i]) {
				at = append(at, steps[i])
			}
		}
		if len(at) > 0 {
			f.values[i] = quantileOf(f.param, at)
		}
	}
}
