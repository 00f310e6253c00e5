package operator

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/prom/window"
)

// series is a series of a value.
type series struct {
	labels labels.Labels
	steps  []float64
}

// seriesBytes is the memory of a series without its labels and steps, in the list, in the
// order of it, and in a map.
const seriesBytes = 160

// run is a run of a tree.
type run struct {
	env   window.Env
	in    []window.Reader // of the plans
	notes annotations.Annotations
	chunk []float64 // unused steps
	unfit bool      // the engine must evaluate the expression
}

// Run computes the tree over the series of its plans. Each fits its plan. ok is false if
// Prometheus' engine must evaluate the expression; nothing was yielded then. A range
// query gets the series in the order of their labels, an instant query in that of the
// engine. Memory is held until Run returns.
func (t *Tree) Run(in []window.Reader, env window.Env, yield window.Yield) (notes annotations.Annotations, ok bool, err error) {
	held := int64(0)
	charge := env.Charge
	env.Charge = func(bytes int64) error {
		held += bytes
		return charge(bytes)
	}
	defer func() { _ = charge(-held) }() // giving back cannot fail
	r := &run{env: env, in: in}
	v, err := r.compute(t.root)
	if err != nil || r.unfit {
		return r.notes, !r.unfit, err
	}
	if !t.instant {
		slices.SortFunc(v.list, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	}
	for _, s := range v.list {
		if err = yield(s.labels, s.steps); err != nil {
			break
		}
		if err = env.Check(); err != nil {
			break
		}
	}
	return r.notes, true, err
}

// compute returns the value of a node. It means nothing if the run is unfit.
func (r *run) compute(n *node) (value, error) {
	in := make([]value, len(n.operands))
	for i, operand := range n.operands {
		var err error
		if in[i], err = r.compute(operand); err != nil || r.unfit {
			return value{}, err
		}
	}
	return n.compute(r, in)
}

// collect returns the series of a plan.
func (r *run) collect(plan *window.Plan, in window.Reader) (v value, err error) {
	notes, err := plan.Run(in, r.env, func(ls labels.Labels, steps []float64) error {
		if err := r.env.Charge(seriesBytes + int64(ls.ByteSize())); err != nil {
			return err
		}
		kept, err := r.steps(len(steps))
		copy(kept, steps)
		v.list = append(v.list, series{ls, kept})
		return err
	})
	r.notes.Merge(notes)
	return v, err
}

// over returns the series of a plan over a list of series, which have the steps of a grid.
func (r *run) over(plan *window.Plan, list []series, g window.Grid) (value, error) {
	in := &samples{list: list}
	if err := r.env.Charge(8 * int64(g.Steps())); err != nil {
		return value{}, err
	}
	in.times = make([]int64, g.Steps())
	for i := range in.times {
		in.times[i] = g.At(i)
	}
	fits, err := plan.Fits(in, r.env.Charge)
	if r.unfit = !fits; err != nil || r.unfit {
		return value{}, err
	}
	return r.collect(plan, in)
}

// samples are a list of series as the Reader of a plan: a step is a sample. One without a
// value is the marker.
type samples struct {
	list  []series
	times []int64
}

// Len implements window.Reader.
func (s *samples) Len() int { return len(s.list) }

// Labels implements window.Reader.
func (s *samples) Labels(i int) labels.Labels { return s.list[i].labels }

// Order implements window.Reader.
func (s *samples) Order(order []int32) error {
	ordered := make([]series, len(order))
	for i, from := range order {
		ordered[i] = s.list[from]
	}
	s.list = ordered
	return nil
}

// Samples implements window.Reader.
func (s *samples) Samples(i int) ([]int64, []float64, error) { return s.times, s.list[i].steps, nil }

// chunkSteps is how many steps are made at once.
const chunkSteps = 4096

// steps returns room for n steps.
func (r *run) steps(n int) ([]float64, error) {
	if n > len(r.chunk) {
		size := max(n, min(chunkSteps, 16*n))
		if err := r.env.Charge(8 * int64(size)); err != nil {
			return nil, err
		}
		r.chunk = make([]float64, size)
	}
	steps := r.chunk[:n:n]
	r.chunk = r.chunk[n:]
	return steps, nil
}

// change changes series by f, which returns whether a step has a value: or else the series
// is left out.
func (r *run) change(list []series, f func(*series) bool) ([]series, error) {
	out := list[:0]
	for i := range list {
		if err := r.env.Check(); err != nil {
			return nil, err
		}
		if s := list[i]; f(&s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// unnamed changes series by f, and drops their names.
func (r *run) unnamed(list []series, f func(*series) bool) (value, error) {
	list, err := r.change(list, func(s *series) bool {
		s.labels = s.labels.DropReserved(window.IsReserved)
		return f(s)
	})
	r.unfit = r.unfit || !distinct(list)
	return value{list: list}, err
}

// distinct reports whether no two series have the same labels.
func distinct(list []series) bool {
	ascending := true
	for i := 1; i < len(list) && ascending; i++ {
		ascending = labels.Compare(list[i-1].labels, list[i].labels) < 0
	}
	if ascending {
		return true
	}
	seen := make(map[uint64]struct{}, len(list))
	for _, s := range list {
		seen[s.labels.Hash()] = struct{}{}
	}
	return len(seen) == len(list)
}
