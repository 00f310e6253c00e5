package window

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
)

// Reader returns the series of a selector.
type Reader interface {
	// Len returns the number of series.
	Len() int
	// Labels returns the labels of a series. No two are equal.
	Labels(i int) labels.Labels
	// Order makes order[i] the series i. It is called before Samples, if at all.
	Order(order []int32) error
	// Samples returns the samples of a series. They are valid until the next call.
	// Calls with ascending numbers are cheap.
	Samples(i int) (times []int64, values []float64, err error)
}

// Stored is an optional interface of a Reader. It has windows in place of samples.
type Stored interface {
	// Windows returns the windows of a series; nil: there are none. They are valid until the
	// next call.
	Windows(i int) (*Windows, error)
}

// Env is what a Run may use.
type Env struct {
	// Charge is called before memory is taken, with its bytes, and with a negative
	// number when it is given back. Its error ends the run. A charge that is refused
	// counts all the same, and is given back.
	Charge func(bytes int64) error
	// Check is called for each series, and now and then where a series takes long. Its
	// error ends the run.
	Check func() error
}

// Yield gets a series of the result. Absent steps have no value; some step has one.
// The steps are valid until it returns.
type Yield func(ls labels.Labels, steps []float64) error

// liveBytes bounds the states of groups that are computed at the same time. With
// more groups the series are read group by group.
const liveBytes = 16 << 20

// scratchBytes bounds what a kernel takes for each sample of a series.
const scratchBytes = 80

// evaluation is a Run.
type evaluation struct {
	*Plan
	Env
	in      Reader
	stage   *stage // in, if the plan has a subquery
	yield   Yield
	kernel  *kernel
	live    int64     // bytes of groups that are computed at the same time
	steps   []float64 // of the present series
	whole   []float64 // repeats the only step
	best    []place   // of topk and bottomk, of the groups that are complete
	windows windowRun
	// scratch is what is charged for the kernel.
	scratch int64
	notes   annotations.Annotations
	named   string // the metric that notes know
}

// Run computes the plan over series that it fits. A range query gets the series of the result in the order of
// their labels, an instant query in the order of Prometheus' engine.
func (p *Plan) Run(in Reader, env Env, yield Yield) (annotations.Annotations, error) {
	return p.run(in, env, yield, liveBytes)
}

func (p *Plan) run(in Reader, env Env, yield Yield, live int64) (annotations.Annotations, error) {
	held := int64(0)
	charge := env.Charge
	env.Charge = func(bytes int64) error {
		held += bytes
		return charge(bytes)
	}
	defer func() { _ = charge(-held) }()
	e, err := p.begin(in, env, yield, live)
	if err != nil {
		return nil, err
	}
	if p.op == "" {
		err = e.each()
	} else {
		err = e.grouped()
	}
	return e.Notes(), err
}

func (p *Plan) begin(in Reader, env Env, yield Yield, live int64) (*evaluation, error) {
	e := &evaluation{Plan: p, Env: env, in: in, yield: yield, live: live}
	if p.sub != nil {
		var err error
		if e.stage, err = p.sub.stage(in, env); err != nil {
			return nil, err
		}
		e.in = e.stage
	}
	e.kernel = newKernel(p.spec)
	e.kernel.check = env.Check
	return e, e.room()
}

// Notes returns the annotations of the series that were read.
func (e *evaluation) Notes() annotations.Annotations {
	if e.stage != nil {
		e.notes.Merge(e.stage.Notes())
	}
	return e.notes
}

// room makes room for the steps of a series.
func (e *evaluation) room() error {
	n := e.spec.Steps()
	if err := e.Charge(8 * int64(n+e.Steps())); err != nil {
		return err
	}
	e.steps = make([]float64, n)
	if e.Steps() > n {
		e.whole = make([]float64, e.Steps())
	}
	return nil
}

// hashBytes is the memory of a hash in a map.
const hashBytes = 24

// Fits reports whether the plan can run over series. If not, they may be equal without
// their names, and Prometheus' engine must find out whether they have values.
func (p *Plan) Fits(in Reader, charge func(bytes int64) error) (bool, error) {
	if p.sub != nil {
		if ok, err := p.sub.Fits(in, charge); !ok || err != nil {
			return false, err
		}
	}
	if !p.drops() {
		return true, nil
	}
	for s := p.sub; s != nil; s = s.sub {
		if s.op != "" { // groups have equal labels only if they have some that are dropped
			return !s.without || !metadata(relabeled{in, s}), nil
		}
	}
	if p.sub != nil {
		in = relabeled{in, p.sub}
	}
	name, plain := "", true
	for i := 0; i < in.Len() && plain; i++ {
		ls := in.Labels(i)
		if i == 0 {
			name = ls.Get(model.MetricNameLabel)
		}
		plain = ls.Get(model.MetricNameLabel) == name && ls.DropReserved(isMetadata).Len() == ls.Len()
	}
	if plain {
		return true, nil
	}
	bytes := hashBytes * int64(in.Len())
	defer func() { _ = charge(-bytes) }() // giving back cannot fail
	if err := charge(bytes); err != nil {
		return false, err
	}
	seen := make(map[uint64]struct{}, in.Len())
	for i := range in.Len() {
		seen[p.labels(in.Labels(i)).Hash()] = struct{}{}
	}
	return len(seen) == in.Len(), nil
}

// metadata reports whether series have labels of metadata.
func metadata(in Reader) bool {
	for i := range in.Len() {
		if ls := in.Labels(i); ls.DropReserved(isMetadata).Len() != ls.Len() {
			return true
		}
	}
	return false
}

// relabeled are series with the labels that a plan leaves them.
type relabeled struct {
	Reader
	plan *Plan
}

// Labels implements Reader.
func (r relabeled) Labels(i int) labels.Labels {
	if r.plan.sub != nil {
		return r.plan.labels(relabeled{r.Reader, r.plan.sub}.Labels(i))
	}
	return r.plan.labels(r.Reader.Labels(i))
}

// labels returns labels as the function leaves them.
func (p *Plan) labels(ls labels.Labels) labels.Labels {
	if !p.drops() {
		return ls
	}
	return ls.DropReserved(IsReserved)
}

// labels returns the labels of a series as the function leaves them.
func (e *evaluation) labels(i int) labels.Labels { return e.Plan.labels(e.in.Labels(i)) }

// IsReserved reports whether functions and arithmetic drop a label.
func IsReserved(name string) bool { return name == model.MetricNameLabel || isMetadata(name) }

func isMetadata(name string) bool { return name == "__type__" || name == "__unit__" }

// roomFor makes room for what a kernel takes for samples.
func (e *evaluation) roomFor(samples int) error {
	more := scratchBytes*int64(samples) - e.scratch
	if more <= 0 {
		return nil
	}
	e.scratch += more
	return e.Charge(more)
}

// compute sets e.steps to the steps of a series and reports whether there are any.
func (e *evaluation) compute(i int) (bool, error) {
	if err := e.Check(); err != nil {
		return false, err
	}
	t, v, err := e.in.Samples(i)
	if err == nil && e.spec.Func != "" {
		err = e.roomFor(len(t))
	}
	if err != nil {
		return false, err
	}
	n, err := e.kernel.Run(e.steps, t, v)
	if in, ok := e.in.(Stored); ok && err == nil {
		n, err = e.stored(in, i, n)
	}
	if n == 0 || err != nil {
		return false, err
	}
	if e.spec.Func == "rate" || e.spec.Func == "increase" {
		e.note(e.in.Labels(i).Get(model.MetricNameLabel))
	}
	return true, nil
}

// windowRun computes the steps of a schedule.
type windowRun struct {
	schedule *Schedule
	kernel   *kernel
	steps    []float64
	counts   []float64 // of avg_over_time
}

// stored replaces the steps of a series that windows are read for. found is how many steps have
// a value, and so is the result.
func (e *evaluation) stored(in Stored, i, found int) (int, error) {
	w, err := in.Windows(i)
	if w == nil || err != nil || len(w.steps) == 0 {
		return found, err
	}
	r := &e.windows
	if r.schedule != w.Schedule {
		n := len(w.times)
		if more := int64(n - cap(r.steps)); more > 0 {
			if err := e.Charge(16 * more); err != nil {
				return 0, err
			}
			r.steps, r.counts = make([]float64, n), make([]float64, n)
		}
		r.schedule, r.steps, r.counts = w.Schedule, r.steps[:n], r.counts[:n]
		s := e.spec
		s.Func, s.Range = w.way.kernel, w.length
		r.kernel = newKernel(s)
		r.kernel.check, r.kernel.times = e.Check, w.times
		if len(w.way.columns) > countColumn {
			r.kernel.function = function{window: (*kernel).slopeOfWindows}
		}
		if w.way.Sketches() {
			r.kernel.function = function{window: (*kernel).quantileOfWindows}
		}
	}
	if err := e.roomFor(len(w.Times)); err != nil {
		return 0, err
	}
	r.kernel.windows = w
	if _, err = r.kernel.Run(r.steps, w.Times, w.Columns[0]); err == nil && e.spec.Func == "avg_over_time" {
		_, err = r.kernel.Run(r.counts, w.Times, w.Columns[1])
	}
	if err != nil {
		return 0, err
	}
	for k, at := range w.steps {
		v := r.steps[k]
		switch {
		case IsAbsent(v):
		case e.spec.Func == "avg_over_time":
			v /= r.counts[k]
		case e.spec.Func == "rate" && w.way.Steps():
			v /= e.kernel.seconds
		}
		found -= present(e.steps[at])
		found += present(v)
		e.steps[at] = v
	}
	return found, nil
}

func present(v float64) int {
	if IsAbsent(v) {
		return 0
	}
	return 1
}

// note says that a metric may be no counter, by its name.
func (e *evaluation) note(name string) {
	if name == e.named || name == "" {
		return
	}
	e.named = name
	for _, suffix := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(name, suffix) {
			return
		}
	}
	e.notes.Add(annotations.NewPossibleNonCounterInfo(name, e.argument))
}

// hand yields a series of the result.
func (e *evaluation) hand(ls labels.Labels, steps []float64) error {
	return e.yield(ls, e.repeated(steps))
}

// repeated returns the only step of a fixed plan as often as the result has steps.
func (e *evaluation) repeated(steps []float64) []float64 {
	if e.whole == nil {
		return steps
	}
	for i := range e.whole {
		e.whole[i] = steps[0]
	}
	return e.whole
}

// each yields each series.
func (e *evaluation) each() error {
	if !e.InOrder() {
		if err := e.sort(); err != nil {
			return err
		}
	}
	for i := range e.in.Len() {
		ok, err := e.compute(i)
		if ok {
			err = e.hand(e.labels(i), e.steps)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sort orders the series by their labels in the result.
func (e *evaluation) sort() error {
	n := e.in.Len()
	if err := e.Charge(int64(n) * (16 + 4)); err != nil {
		return err
	}
	all, order := make([]labels.Labels, n), make([]int32, n)
	for i := range all {
		all[i], order[i] = e.labels(i), int32(i)
	}
	compare := func(a, b int32) int { return labels.Compare(all[a], all[b]) }
	if slices.IsSortedFunc(order, compare) {
		return nil
	}
	slices.SortFunc(order, compare)
	return e.in.Order(order)
}
