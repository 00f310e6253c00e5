package operator

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// matching says which series of both sides belong together.
type matching struct {
	card    parser.VectorMatchCardinality
	on      bool // series are paired by names, not by all labels but names
	names   []string
	without []string // names with that of the metric, sorted
	include []string // names of labels that the result has from the one side
}

// matchingOf returns a matching, and false if only the engine has it.
func matchingOf(m *parser.VectorMatching) (matching, bool) {
	if m == nil { // with a scalar
		return matching{}, true
	}
	names := slices.Sorted(slices.Values(m.MatchingLabels))
	without := slices.Sorted(slices.Values(append([]string{model.MetricNameLabel}, names...)))
	return matching{m.Card, m.On, names, without, m.Include},
		m.FillValues.LHS == nil && m.FillValues.RHS == nil && !slices.Contains(names, model.MetricNameLabel)
}

// key returns what the labels of series that belong together have in common.
func (m *matching) key(buf []byte, ls labels.Labels) []byte {
	if m.on {
		return ls.BytesWithLabels(buf, m.names...)
	}
	return ls.BytesWithoutLabels(buf, m.without...)
}

// labels returns the labels of a pair by those of its many side and its one side.
func (o *operator) labels(many, one labels.Labels) labels.Labels {
	b := labels.NewBuilder(many)
	if o.renames() {
		b.Del(model.MetricNameLabel)
	}
	switch {
	case o.card != parser.CardOneToOne:
	case o.on:
		b.Keep(o.names...)
	default:
		b.Del(o.names...)
	}
	for _, name := range o.include {
		b.Set(name, one.Get(name)) // one that is empty goes
	}
	return b.Labels()
}

// both computes an operator between the series of both sides that belong together.
func (r *run) both(o *operator, many, one []series) (value, error) {
	if o.card == parser.CardOneToMany {
		many, one = one, many
	}
	places := make(map[string]int, len(one))
	var buf []byte
	for i := range one {
		if buf = o.key(buf, one[i].labels); !r.fits(one[i].labels) {
			return value{}, nil
		}
		if err := r.env.Charge(int64(len(buf))); err != nil {
			return value{}, err
		}
		places[string(buf)] = i
	}
	r.unfit = len(places) < len(one)
	pairs, partners, paired := many[:0], one[:0:0], make([]bool, len(one))
	for _, s := range many {
		if err := r.env.Check(); err != nil || r.unfit || !r.fits(s.labels) {
			return value{}, err
		}
		buf = o.key(buf, s.labels)
		i, ok := places[string(buf)]
		if !ok {
			continue
		}
		r.unfit = paired[i] && o.card == parser.CardOneToOne
		paired[i] = true
		s.labels = o.labels(s.labels, one[i].labels)
		pairs, partners = append(pairs, s), append(partners, one[i])
	}
	if o.card != parser.CardOneToOne {
		r.unfit = r.unfit || !distinct(pairs)
	}
	i := -1
	list, err := r.change(pairs, func(s *series) bool {
		i++
		a, b := s.steps, partners[i].steps
		if o.card == parser.CardOneToMany {
			a, b = b, a
		}
		return o.apply(s.steps, a, b, a)
	})
	return value{list: list}, err
}

// fits reports whether series can be paired by labels like these.
func (r *run) fits(ls labels.Labels) bool {
	r.unfit = r.unfit || ls.Has("__type__") || ls.Has("__unit__")
	return !r.unfit
}

// set computes and, or, and unless.
func (r *run) set(m matching, op parser.ItemType, left, right []series) (value, error) {
	choose, by := left, right
	if op == parser.LOR {
		choose, by = right, left
	}
	there, err := r.presence(&m, by)
	if err != nil {
		return value{}, err
	}
	var buf []byte
	chosen, err := r.change(choose, func(s *series) (some bool) {
		buf = m.key(buf, s.labels)
		by := there[string(buf)].steps
		for i, v := range s.steps {
			if (by != nil && !window.IsAbsent(by[i])) != (op == parser.LAND) {
				s.steps[i] = window.Absent()
			} else if !window.IsAbsent(v) {
				some = true
			}
		}
		return some
	})
	if err != nil || op != parser.LOR {
		return value{list: chosen}, err
	}
	return r.union(left, chosen), nil
}

// present is series with the same key: the steps have a value where some series has one.
type present struct {
	steps []float64
	own   bool // not those of a series
}

// presence returns where the series of each key have values.
func (r *run) presence(m *matching, list []series) (map[string]present, error) {
	there := make(map[string]present, len(list))
	var buf []byte
	for _, s := range list {
		if err := r.env.Check(); err != nil {
			return nil, err
		}
		buf = m.key(buf, s.labels)
		p, ok := there[string(buf)]
		if !ok {
			if err := r.env.Charge(int64(len(buf))); err != nil {
				return nil, err
			}
			there[string(buf)] = present{steps: s.steps}
			continue
		}
		if !p.own {
			steps, err := r.steps(len(p.steps))
			if err != nil {
				return nil, err
			}
			copy(steps, p.steps)
			p = present{steps, true}
			there[string(buf)] = p
		}
		for i, v := range s.steps {
			if !window.IsAbsent(v) {
				p.steps[i] = v
			}
		}
	}
	return there, nil
}

// union returns the series of two lists. Two with the same labels become one, if no step
// has values of both.
func (r *run) union(left, right []series) value {
	places := make(map[uint64]int, len(left))
	for i, s := range left {
		places[s.labels.Hash()] = i
	}
	all := left
	for _, s := range right {
		i, ok := places[s.labels.Hash()]
		if !ok {
			all = append(all, s)
			continue
		}
		r.unfit = r.unfit || !labels.Equal(left[i].labels, s.labels)
		for k, v := range s.steps {
			if window.IsAbsent(v) {
				continue
			}
			r.unfit = r.unfit || !window.IsAbsent(left[i].steps[k])
			left[i].steps[k] = v
		}
	}
	return value{list: all}
}
