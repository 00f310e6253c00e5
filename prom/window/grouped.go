package window

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// groups divides the series of a plan.
type groups struct {
	of     []int32         // of each series
	labels []labels.Labels // of each group, in the order of its first series
}

// groupBytes is about the memory of a group besides its labels.
const groupBytes = 64

// groups finds the group of each series.
func (e *evaluation) groups() (groups, error) {
	n := e.in.Len()
	g := groups{}
	if err := e.Charge(4 * int64(n)); err != nil {
		return g, err
	}
	g.of = make([]int32, n)
	if len(e.grouping) == 0 && !e.without {
		if n > 0 {
			g.labels = append(g.labels, labels.EmptyLabels())
		}
		return g, nil
	}
	seen := map[string]int32{}
	builder := labels.NewBuilder(labels.EmptyLabels())
	var key []byte
	for i := range n {
		ls := e.labels(i)
		if e.without {
			key = ls.BytesWithoutLabels(key, e.grouping...)
		} else {
			key = ls.BytesWithLabels(key, e.grouping...)
		}
		at, ok := seen[string(key)]
		if !ok {
			if err := e.Charge(2*int64(len(key)) + groupBytes); err != nil {
				return g, err
			}
			at = int32(len(g.labels))
			seen[string(key)] = at
			builder.Reset(ls)
			if e.without {
				builder.Del(e.grouping...)
			} else {
				builder.Keep(e.grouping...)
			}
			g.labels = append(g.labels, builder.Labels())
		}
		g.of[i] = at
	}
	return g, nil
}

// sort sorts groups by their labels.
func (g *groups) sort(order []int32) {
	slices.SortFunc(order, func(a, b int32) int { return labels.Compare(g.labels[a], g.labels[b]) })
}

// state is what is known of a group.
type state interface {
	add(series int, steps []float64) error
	// finish yields the result of the group, and begins another group.
	finish(ls labels.Labels) error
}

// grouped aggregates. The states of few groups live at the same time. The series of
// many groups are read group by group. Within a group the order of the series stays
// what it is. A range query gets the groups by their labels, an instant query in the
// order of the first series with a value.
func (e *evaluation) grouped() error {
	g, err := e.groups()
	if err != nil {
		return err
	}
	size := 8 * foldWords[e.op] * int64(len(e.steps))
	if e.top() {
		size = int64(len(e.steps)) * (16 + int64(min(e.k, e.in.Len()))*topBytes)
	}
	one := func() (state, error) {
		if e.top() {
			return &topState{e, newTop(e.op == "bottomk", e.k, len(e.steps)), 0}, e.Charge(16 * int64(len(e.steps)))
		}
		return &foldState{e, newFold(e.op, len(e.steps), e.param)}, e.Charge(size)
	}
	if e.InOrder() || int64(len(g.labels))*size <= e.live {
		err = e.together(g, one)
	} else {
		err = e.apart(g, one)
	}
	if err != nil || !e.top() {
		return err
	}
	return e.handBest()
}

// together computes all groups at the same time.
func (e *evaluation) together(g groups, one func() (state, error)) error {
	states := make([]state, len(g.labels))
	var order []int32
	for i := range e.in.Len() {
		ok, err := e.compute(i)
		if ok {
			s := &states[g.of[i]]
			if *s == nil {
				order = append(order, g.of[i])
				*s, err = one()
			}
			if err == nil {
				err = (*s).add(i, e.steps)
			}
		}
		if err != nil {
			return err
		}
	}
	if !e.InOrder() {
		g.sort(order)
	}
	for _, at := range order {
		if err := states[at].finish(g.labels[at]); err != nil {
			return err
		}
	}
	return nil
}

// apart computes one group after another.
func (e *evaluation) apart(g groups, one func() (state, error)) error {
	n := e.in.Len()
	if err := e.Charge(4 * int64(n+2*len(g.labels))); err != nil {
		return err
	}
	order, rank, series := make([]int32, len(g.labels)), make([]int32, len(g.labels)), make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	g.sort(order)
	for i, at := range order {
		rank[at] = int32(i)
	}
	for i := range series {
		series[i] = int32(i)
	}
	slices.SortFunc(series, func(a, b int32) int {
		return cmp.Or(cmp.Compare(rank[g.of[a]], rank[g.of[b]]), cmp.Compare(a, b))
	})
	if err := e.in.Order(series); err != nil {
		return err
	}
	s, err := one()
	if err != nil {
		return err
	}
	for i := range n {
		ok, err := e.compute(i)
		if ok {
			err = s.add(i, e.steps)
		}
		if err != nil {
			return err
		}
		if i+1 == n || g.of[series[i]] != g.of[series[i+1]] {
			if err := s.finish(g.labels[g.of[series[i]]]); err != nil {
				return err
			}
		}
	}
	return nil
}

// foldState folds the series of a group.
type foldState struct {
	e    *evaluation
	fold *fold
}

func (s *foldState) add(_ int, steps []float64) error {
	if keeps := s.fold.Keeps(); keeps > 0 {
		if err := s.e.Charge(keeps); err != nil {
			return err
		}
	}
	s.fold.Add(steps)
	return nil
}

func (s *foldState) finish(ls labels.Labels) error {
	steps, found := s.fold.Steps()
	var err error
	if found > 0 {
		err = s.e.hand(ls, steps)
	}
	if kept := s.fold.Kept(); kept > 0 {
		_ = s.e.Charge(-kept) // giving back cannot fail
	}
	s.fold.Reset()
	return err
}

// topState keeps the best values of a group.
type topState struct {
	e       *evaluation
	top     *top
	charged int
}

func (s *topState) add(series int, steps []float64) error {
	n := s.top.Kept() + len(steps)
	if len(steps) <= math.MaxInt/s.e.k {
		n = min(n, len(steps)*s.e.k)
	}
	if n > s.charged {
		if err := s.e.Charge(int64(n-s.charged) * (topBytes + 2*placeBytes)); err != nil {
			return err
		}
		s.charged = n
	}
	s.top.Add(series, steps)
	return nil
}

func (s *topState) finish(labels.Labels) error {
	s.e.best = s.top.Places(s.e.best, s.e.instant)
	_ = s.e.Charge(-topBytes * int64(s.charged)) // giving back cannot fail
	s.top.Reset()
	s.charged = 0
	return nil
}

// handBest yields the series with the best values.
func (e *evaluation) handBest() error {
	all := e.best
	if !e.instant {
		slices.SortFunc(all, func(a, b place) int {
			if a.Series == b.Series {
				return 0
			}
			return cmp.Or(labels.Compare(e.labels(a.Series), e.labels(b.Series)), cmp.Compare(a.Series, b.Series))
		})
	}
	for i := range e.steps {
		e.steps[i] = Absent()
	}
	for len(all) > 0 {
		n := 0
		for ; n < len(all) && all[n].Series == all[0].Series; n++ {
			e.steps[all[n].Step] = all[n].Value
		}
		if err := e.hand(e.labels(all[0].Series), e.steps); err != nil {
			return err
		}
		for _, p := range all[:n] {
			e.steps[p.Step] = Absent()
		}
		all = all[n:]
	}
	return nil
}
