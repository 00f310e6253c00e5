package window

import (
	"math"
	"time"

	"tsdbd/internal/quantiles"
)

// spec says what a kernel computes of one series at each time of a grid: the
// newest sample (Func is empty), or a function over the samples of a range.
type spec struct {
	Grid
	Func     string  // of PromQL; empty: an instant vector selector
	Range    int64   // of a range selector, in milliseconds
	Lookback int64   // of an instant vector selector, in milliseconds
	Offset   int64   // in milliseconds, as the modifiers offset and @ make it
	Param    float64 // of quantile_over_time and predict_linear
}

// Reads returns the times of the samples that the kernel needs: those after min
// and up to max.
func (s *spec) Reads() (minTime, maxTime int64) {
	back := s.Range
	if s.Func == "" {
		back = s.Lookback
	}
	last := s.Start
	if n := s.Steps(); n > 0 {
		last = s.At(n - 1)
	}
	return s.Start - s.Offset - back, last - s.Offset
}

// KeepsName reports whether the results carry the names of their series.
func (s *spec) KeepsName() bool {
	return s.Func == "" || s.Func == "last_over_time" || s.Func == "first_over_time"
}

// kernel computes a spec. It belongs to one goroutine.
type kernel struct {
	spec    spec
	seconds float64      // of the range
	check   func() error // called once in a while in a long Run; nil: never
	times   []int64      // that replace those of the grid, ascending; nil: none do
	function
	windows *Windows // of slopeOfWindows

	// Of the present series. A window is t[lo:hi].
	t []int64
	v []float64

	ownT   []int64   // memory of t where markers had to go
	ownV   []float64 // memory of v
	marks  []int32   // per sample, how many events there were up to it
	resets []int32   // samples below the one before
	next   int       // the first of resets that may be in a window
	sums   exact     // of the samples
	ahead  ahead     // of avg_over_time
	lines  lines     // of deriv and predict_linear
	queue  []int32   // candidates for the extreme of a window
	seen   int       // samples that were offered to queue
	sorted sortedWindow
	values floats
	failed error // of check, in a window
}

// newKernel returns a kernel for a spec, whose function is one of functions.
func newKernel(s spec) *kernel {
	return &kernel{spec: s, seconds: (time.Duration(s.Range) * time.Millisecond).Seconds(), function: functions[s.Func]}
}

// function computes the value of a window.
type function struct {
	prepare func(*kernel) // nil: nothing is prepared
	window  func(k *kernel, lo, hi int, at int64) float64
}

// functions are the functions by their names in PromQL. An instant vector selector has none.
var functions = map[string]function{
	"":                   {},
	"rate":               {(*kernel).findResets, (*kernel).slope},
	"increase":           {(*kernel).findResets, (*kernel).slope},
	"delta":              {window: (*kernel).slope},
	"irate":              {window: (*kernel).instant},
	"idelta":             {window: (*kernel).instant},
	"changes":            {(*kernel).markChanges, (*kernel).marked},
	"resets":             {(*kernel).markResets, (*kernel).marked},
	"deriv":              {(*kernel).fitLines, (*kernel).regression},
	"predict_linear":     {(*kernel).fitLines, (*kernel).regression},
	"sum_over_time":      {(*kernel).sumWindows, (*kernel).sum},
	"avg_over_time":      {(*kernel).sumWindows, (*kernel).mean},
	"count_over_time":    {window: func(_ *kernel, lo, hi int, _ int64) float64 { return float64(hi - lo) }},
	"present_over_time":  {window: func(*kernel, int, int, int64) float64 { return 1 }},
	"first_over_time":    {window: func(k *kernel, lo, _ int, _ int64) float64 { return k.v[lo] }},
	"last_over_time":     {window: func(k *kernel, _, hi int, _ int64) float64 { return k.v[hi-1] }},
	"min_over_time":      {(*kernel).emptyQueue, (*kernel).extreme},
	"max_over_time":      {(*kernel).emptyQueue, (*kernel).extreme},
	"stddev_over_time":   {window: (*kernel).variance},
	"stdvar_over_time":   {window: (*kernel).variance},
	"quantile_over_time": {(*kernel).emptySorted, (*kernel).quantile},
	"mad_over_time":      {window: (*kernel).deviation},
}

// windowed says how a function follows from aggregates of windows of samples.
type windowed struct {
	columns []string // functions of InfluxQL
	kernel  string   // the function of PromQL over the first column
}

// windowedBy are the functions that follow from aggregates, by their names in PromQL. Windows
// of a series are put together as samples are: a maximum is that of the maxima.
var windowedBy = map[string]windowed{
	"":                   {[]string{"last"}, "last_over_time"},
	"last_over_time":     {[]string{"last"}, "last_over_time"},
	"first_over_time":    {[]string{"first"}, "first_over_time"},
	"min_over_time":      {[]string{"min"}, "min_over_time"},
	"max_over_time":      {[]string{"max"}, "max_over_time"},
	"sum_over_time":      {[]string{"sum"}, "sum_over_time"},
	"avg_over_time":      {[]string{"sum", "count"}, "sum_over_time"},
	"count_over_time":    {[]string{"count"}, "sum_over_time"},
	"present_over_time":  {[]string{"count"}, "present_over_time"},
	"delta":              {[]string{"first", "last", "count"}, "delta"},
	"increase":           {[]string{"first", "last", "count", "increase"}, "increase"},
	"rate":               {[]string{"first", "last", "count", "increase"}, "rate"},
	"quantile_over_time": {[]string{sketchColumn}, "quantile_over_time"},
}

// sketchColumn is the column that has sketches, not numbers.
const sketchColumn = "percentile"

// groupedBy are the functions under an aggregation that follow from aggregates of windows of
// several series, by the names of both in PromQL. Windows of different series are put together
// as windows of one are. rate and increase have the steps between samples: nothing is
// extrapolated.
var groupedBy = map[[2]string]windowed{
	{"max", "max_over_time"}:   {[]string{"max"}, "max_over_time"},
	{"min", "min_over_time"}:   {[]string{"min"}, "min_over_time"},
	{"sum", "count_over_time"}: {[]string{"count"}, "sum_over_time"},
	{"sum", "increase"}:        {[]string{"increase"}, "sum_over_time"},
	{"sum", "rate"}:            {[]string{"increase"}, "sum_over_time"},
	{"sum", "sum_over_time"}:   {[]string{"sum"}, "sum_over_time"},
}

// Way is how values follow from windows.
type Way struct {
	windowed
	// Series of windows must keep the labels Labels, or with AllBut all labels but these.
	Labels []string
	AllBut bool
}

// Columns returns the aggregates of windows that stand for samples.
func (w *Way) Columns() []string { return w.columns }

// Steps reports whether the samples beside windows count by the step from the sample before.
func (w *Way) Steps() bool { return len(w.columns) == 1 && w.columns[0] == "increase" }

// Sketches reports whether windows have sketches, so that values are estimates.
func (w *Way) Sketches() bool { return w.columns[0] == sketchColumn }

// Schedule says which steps of a plan read windows. A step whose range has a time for which
// windows stand reads whole windows: those of the range that ends with the latest whole
// window that has ended. For times in this range for which no windows stand, it reads samples.
type Schedule struct {
	// Samples are the times of all samples that the plan reads, and Windows those of all
	// windows. rate and increase need the window before, too.
	Samples, Windows Span
	way              *Way
	steps            []int32 // that read windows
	times            []int64 // the last millisecond that each of them reads
	length           int64   // of their ranges
}

// Windows are the windows of a series that have samples, and samples at times for which no
// windows stand. They ascend.
type Windows struct {
	*Schedule
	Times   []int64     // the last millisecond of a window, or the time of a sample
	Lengths []int64     // of windows in milliseconds; 0: a sample
	Columns [][]float64 // Way.Columns of each. Of a sample the count is 1, and the increase 0, or with Way.Steps its step
	// Sketches are, with Way.Sketches, those of windows; nil: it is a sample, and its value is in
	// the column.
	Sketches []*quantiles.Sketch
}

// checkedSamples is how many samples of windows are read between two calls of check: a
// few milliseconds.
const checkedSamples = 1 << 20

// Run sets dst to the value at each time of the grid, Absent where there is none,
// and returns how many there are. The samples t and v of the series ascend in
// time, and hold the markers that end it. It reads them and keeps nothing. dst has
// Steps elements. The error is that of check.
func (k *kernel) Run(dst []float64, t []int64, v []float64) (int, error) {
	if k.window == nil {
		return k.newest(dst, t, v), nil
	}
	k.t, k.v = k.unmarked(t, v)
	t = k.t
	if k.prepare != nil && len(t) > 0 {
		k.prepare(k)
	}
	lo, hi, found, read := 0, 0, 0, 0
	at := k.spec.Start - k.spec.Offset
	for i := range dst {
		if k.times != nil {
			at = k.times[i]
		}
		hi = after(t, hi, at)
		lo = after(t, lo, at-k.spec.Range)
		if read += hi - lo; read >= checkedSamples && k.check != nil {
			if err := k.check(); err != nil {
				return 0, err
			}
			read = 0
		}
		if lo < hi {
			v := k.window(k, lo, hi, at)
			if k.failed != nil {
				return 0, k.failed
			}
			dst[i] = v
			if !IsAbsent(v) {
				found++
			}
		} else {
			dst[i] = Absent()
		}
		at += k.spec.Step
	}
	k.t, k.v = nil, nil
	return found, nil
}

// newest is Run for an instant vector selector: the newest sample that is not
// older than the lookback, if it is not a marker.
func (k *kernel) newest(dst []float64, t []int64, v []float64) int {
	hi, found := 0, 0
	at := k.spec.Start - k.spec.Offset
	for i := range dst {
		hi = after(t, hi, at)
		dst[i] = Absent()
		if hi > 0 && t[hi-1] > at-k.spec.Lookback {
			dst[i] = v[hi-1]
			if !IsAbsent(v[hi-1]) {
				found++
			}
		}
		at += k.spec.Step
	}
	return found
}

// after returns the first index from i on whose time is after at. Most windows move
// on by few samples; longer ways are searched.
func after(t []int64, i int, at int64) int {
	if i >= len(t) || t[i] > at {
		return i
	}
	step := 1
	for i+step < len(t) && t[i+step] <= at {
		i += step
		step *= 2
	}
	end := min(i+step, len(t)) // t[i] is not after at, t[end] is
	for i+1 < end {
		if m := int(uint(i+end) / 2); t[m] <= at {
			i = m
		} else {
			end = m
		}
	}
	return end
}

// unmarked returns the samples without the markers.
func (k *kernel) unmarked(t []int64, v []float64) ([]int64, []float64) {
	first := 0
	for first < len(v) && math.Float64bits(v[first]) != staleBits {
		first++
	}
	if first == len(v) {
		return t, v
	}
	k.ownT, k.ownV = append(k.ownT[:0], t[:first]...), append(k.ownV[:0], v[:first]...)
	for i := first; i < len(v); i++ {
		if !IsAbsent(v[i]) {
			k.ownT, k.ownV = append(k.ownT, t[i]), append(k.ownV, v[i])
		}
	}
	return k.ownT, k.ownV
}
