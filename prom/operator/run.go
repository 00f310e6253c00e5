package operator

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/prom/window"
)

// series is a series of a result.
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
	r := &run{env: env}
	plan := t.Plans()[0]
	list, _, err := r.compute(t, in)
	if err == nil && !r.unfit && !plan.InOrder() {
		slices.SortFunc(list, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	}
	for i := 0; i < len(list) && err == nil && !r.unfit; i++ {
		if err = yield(list[i].labels, list[i].steps); err == nil {
			err = env.Check()
		}
	}
	return r.notes, !r.unfit, err
}

// compute returns the series of a tree, and the readers behind those of its plans.
func (r *run) compute(t *Tree, in []window.Reader) (list []series, rest []window.Reader, err error) {
	if t.plan != nil {
		list, err = r.plan(t.plan, in[0])
		return list, in[1:], err
	}
	if t.op == nil {
		return nil, in, nil
	}
	left, in, err := r.compute(t.left, in)
	if err != nil || r.unfit {
		return nil, in, err
	}
	right, in, err := r.compute(t.right, in)
	if err != nil || r.unfit {
		return nil, in, err
	}
	switch {
	case !t.right.vector():
		list, err = r.each(t, left, t.right.number, false)
	case !t.left.vector():
		list, err = r.each(t, right, t.left.number, true)
	default:
		list, err = r.both(t, left, right)
	}
	return list, in, err
}

// plan returns the series of a plan.
func (r *run) plan(plan *window.Plan, in window.Reader) (list []series, err error) {
	notes, err := plan.Run(in, r.env, func(ls labels.Labels, steps []float64) error {
		if err := r.env.Charge(seriesBytes + int64(ls.ByteSize())); err != nil {
			return err
		}
		kept, err := r.steps(len(steps))
		copy(kept, steps)
		list = append(list, series{ls, kept})
		return err
	})
	r.notes.Merge(notes)
	return list, err
}

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

// each computes an operator between series and a number.
func (r *run) each(t *Tree, list []series, number float64, swapped bool) ([]series, error) {
	if len(list) == 0 {
		return nil, nil
	}
	numbers, err := r.steps(len(list[0].steps))
	if err != nil {
		return nil, err
	}
	for i := range numbers {
		numbers[i] = number
	}
	out := list[:0]
	for _, s := range list {
		if err := r.env.Check(); err != nil {
			return nil, err
		}
		a, b := s.steps, numbers
		if swapped {
			a, b = b, a
		}
		if !t.compares || t.bool {
			s.labels = s.labels.DropReserved(window.IsReserved)
		}
		if t.apply(s.steps, a, b, s.steps) {
			out = append(out, s)
		}
	}
	if !t.compares || t.bool {
		r.unfit = !distinct(out)
	}
	return out, nil
}

// both computes an operator between the series of both sides that belong together.
func (r *run) both(t *Tree, left, right []series) ([]series, error) {
	places := make(map[string]int, len(right))
	var buf []byte
	for i := range right {
		if buf = t.pair(buf, right[i].labels); !r.fits(right[i].labels) {
			return nil, nil
		}
		if err := r.env.Charge(int64(len(buf))); err != nil {
			return nil, err
		}
		places[string(buf)] = i
	}
	r.unfit = len(places) < len(right)
	out := left[:0]
	paired := make([]bool, len(right))
	for _, s := range left {
		if err := r.env.Check(); err != nil || r.unfit {
			return nil, err
		}
		if !r.fits(s.labels) {
			return nil, nil
		}
		buf = t.pair(buf, s.labels)
		i, ok := places[string(buf)]
		if !ok {
			continue
		}
		r.unfit = paired[i]
		paired[i] = true
		if s.labels = t.labels(s.labels); t.apply(s.steps, s.steps, right[i].steps, s.steps) {
			out = append(out, s)
		}
	}
	return out, nil
}

// fits reports whether series can be paired by labels like these.
func (r *run) fits(ls labels.Labels) bool {
	r.unfit = r.unfit || ls.Has("__type__") || ls.Has("__unit__")
	return !r.unfit
}

// pair returns what the labels of series that belong together have in common.
func (t *Tree) pair(buf []byte, ls labels.Labels) []byte {
	if t.on {
		return ls.BytesWithLabels(buf, t.names...)
	}
	return ls.BytesWithoutLabels(buf, t.without...)
}

// labels returns the labels of a pair by those of its left side.
func (t *Tree) labels(ls labels.Labels) labels.Labels {
	b := labels.NewBuilder(ls)
	if !t.compares || t.bool {
		b.Del(model.MetricNameLabel)
	}
	if t.on {
		b.Keep(t.names...)
	} else {
		b.Del(t.names...)
	}
	return b.Labels()
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
