package window

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

// scheduleBytes is the memory of a step that reads windows.
const scheduleBytes = 12

// selecting returns the plan of the selector.
func (p *Plan) selecting() *Plan {
	for p.sub != nil {
		p = p.sub
	}
	return p
}

// Ways returns how the values of the selector follow from windows, from those of single series
// first; nil: they do not. Each takes all windows that the one before it takes.
func (p *Plan) Ways() (ways []Way) {
	s := p.selecting()
	single, ok := windowedBy[s.spec.Func]
	if !ok {
		return nil
	}
	grouped, ok := groupedBy[[2]string{s.op, s.spec.Func}]
	if !ok || !slices.Equal(grouped.columns, single.columns) {
		ways = append(ways, Way{windowed: single, AllBut: true})
	}
	if !ok {
		return ways
	}
	way := Way{windowed: grouped, Labels: slices.Clone(s.grouping), AllBut: s.without}
	for _, m := range s.matchers {
		if !s.without {
			way.Labels = append(way.Labels, m.Name)
			continue
		}
		way.Labels = slices.DeleteFunc(way.Labels, func(label string) bool { return label == m.Name })
	}
	way.Labels = slices.DeleteFunc(way.Labels, func(label string) bool { return label == model.MetricNameLabel })
	return append(ways, way)
}

// Func returns the function of the selector, "" for an instant vector selector.
func (p *Plan) Func() string { return p.selecting().spec.Func }

// Step returns how far evaluations of the selector are apart; 0: there is one.
func (p *Plan) Step() time.Duration {
	s := &p.selecting().spec
	if s.Steps() < 2 {
		return 0
	}
	return time.Duration(s.Step) * time.Millisecond
}

// Refuses returns why windows of a length do not stand for samples; "": they do.
func (p *Plan) Refuses(every time.Duration) string {
	s := &p.selecting().spec
	switch {
	case every%time.Millisecond != 0:
		return "its windows have parts of a millisecond"
	case s.Func == "" && p.Step() > 0 && p.Step() < every:
		return "the step of a selector is shorter than " + words(every)
	case s.Func != "" && s.Range%every.Milliseconds() != 0:
		return "the range " + words(time.Duration(s.Range)*time.Millisecond) + " is not made of whole windows of " + words(every)
	}
	return ""
}

func words(d time.Duration) string { return model.Duration(d).String() }

// Schedule returns which steps read windows, and how. These stand for the samples of spans, which
// ascend and do not overlap. All windows divide every.
func (p *Plan) Schedule(way *Way, every time.Duration, spans []Span, charge func(bytes int64) error) (*Schedule, error) {
	s := &p.selecting().spec
	whole := every.Milliseconds()
	back, out := s.Range, &Schedule{way: way}
	if s.Func == "" {
		back = s.Lookback
	}
	if out.length = back; back%whole != 0 {
		out.length += whole - back%whole
	}
	if err := charge(scheduleBytes * int64(s.Steps())); err != nil {
		return nil, err
	}
	first := 0 // of spans that a step may read
	for i := range s.Steps() {
		read := Span{s.At(i) - s.Offset - back + 1, s.At(i) - s.Offset + 1}
		for first < len(spans) && spans[first].To <= read.From {
			first++
		}
		if first == len(spans) || spans[first].From >= read.To {
			out.Samples = out.Samples.Union(read)
			continue
		}
		to := read.To - read.To%whole
		if to > read.To {
			to -= whole
		}
		read = Span{to - out.length, to}
		out.steps, out.times = append(out.steps, int32(i)), append(out.times, to-1)
		out.Windows = out.Windows.Union(read)
		for _, stored := range spans {
			if stored.From <= read.From {
				read.From = max(read.From, stored.To)
			}
		}
		if !read.Empty() {
			if way.Steps() { // from samples in the window before that of the first
				read.From -= 2 * whole
			}
			out.Samples = out.Samples.Union(read)
		}
	}
	return out, nil
}

// Whole returns the least length that windows of both lengths divide.
func Whole(a, b time.Duration) time.Duration {
	product := a
	for c := b; c > 0; {
		a, c = c, a%c
	}
	return product / a * b
}
