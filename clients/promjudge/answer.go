package promjudge

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Answer is the answer to a Question in a form that can be compared.
type Answer struct {
	Err    string
	Type   parser.ValueType
	Text   string // of a string
	Series []AnswerSeries
	Notes  []string // warnings and infos, sorted
}

// AnswerSeries is a series of an answer; a scalar is one without labels.
type AnswerSeries struct {
	Labels     labels.Labels
	Floats     []promql.FPoint
	Histograms []promql.HPoint
}

// mostNotes is how many warnings, and how many infos, an answer has at most, as in
// Prometheus' HTTP API.
const mostNotes = 10

// newAnswer takes over a result. It copies what the engine uses again.
func newAnswer(expr string, res *promql.Result) *Answer {
	a := &Answer{}
	warnings, infos := res.Warnings.AsStrings(expr, mostNotes, mostNotes)
	a.Notes = append(append(a.Notes, warnings...), infos...)
	slices.Sort(a.Notes)
	if res.Err != nil {
		a.Err = res.Err.Error()
		return a
	}
	a.Type = res.Value.Type()
	switch v := res.Value.(type) {
	case promql.String:
		a.Text = v.V
	case promql.Scalar:
		a.Series = []AnswerSeries{{Floats: []promql.FPoint{{T: v.T, F: v.V}}}}
	case promql.Vector:
		for _, s := range v {
			one := AnswerSeries{Labels: s.Metric}
			if s.H != nil {
				one.Histograms = []promql.HPoint{{T: s.T, H: s.H.Copy()}}
			} else {
				one.Floats = []promql.FPoint{{T: s.T, F: s.F}}
			}
			a.Series = append(a.Series, one)
		}
		if !hasOrder(expr) {
			slices.SortFunc(a.Series, func(x, y AnswerSeries) int { return labels.Compare(x.Labels, y.Labels) })
		}
	case promql.Matrix:
		for _, s := range v {
			one := AnswerSeries{Labels: s.Metric, Floats: slices.Clone(s.Floats)}
			for _, h := range s.Histograms {
				one.Histograms = append(one.Histograms, promql.HPoint{T: h.T, H: h.H.Copy()})
			}
			a.Series = append(a.Series, one)
		}
	}
	return a
}

// hasOrder says whether the order of an instant vector is part of the answer.
func hasOrder(expr string) bool {
	for _, name := range []string{"sort", "topk", "bottomk"} {
		if strings.HasPrefix(expr, name) {
			return true
		}
	}
	return false
}

// Values is the number of values of an answer.
func (a *Answer) Values() (n int) {
	for _, s := range a.Series {
		n += len(s.Floats) + len(s.Histograms)
	}
	return n
}

// Differs says what differs between two answers; "" if nothing does. Numbers are
// equal if their bits are, or if both are not a number.
func Differs(got, want *Answer) string {
	if got.Err != want.Err {
		return fmt.Sprintf("error %q, want %q", got.Err, want.Err)
	}
	if got.Type != want.Type || got.Text != want.Text {
		return fmt.Sprintf("%s %q, want %s %q", got.Type, got.Text, want.Type, want.Text)
	}
	if len(got.Series) != len(want.Series) {
		return fmt.Sprintf("%d series, want %d\n got %s\nwant %s", len(got.Series), len(want.Series), names(got), names(want))
	}
	for i, g := range got.Series {
		w := want.Series[i]
		if !labels.Equal(g.Labels, w.Labels) {
			return fmt.Sprintf("series %d is %s, want %s", i, g.Labels, w.Labels)
		}
		if d := floatsDiffer(g.Floats, w.Floats); d != "" {
			return fmt.Sprintf("%s: %s", g.Labels, d)
		}
		if d := histogramsDiffer(g.Histograms, w.Histograms); d != "" {
			return fmt.Sprintf("%s: %s", g.Labels, d)
		}
	}
	omitted := func(note string) bool { return strings.Contains(note, " omitted") } // any of them are
	if len(got.Notes) == len(want.Notes) && slices.ContainsFunc(want.Notes, omitted) && slices.ContainsFunc(got.Notes, omitted) {
		return ""
	}
	if !slices.Equal(got.Notes, want.Notes) {
		return fmt.Sprintf("notes\n got %q\nwant %q", got.Notes, want.Notes)
	}
	return ""
}

func names(a *Answer) string {
	var b strings.Builder
	for _, s := range a.Series[:min(len(a.Series), 10)] {
		b.WriteString(s.Labels.String())
	}
	return b.String()
}

func floatsDiffer(got, want []promql.FPoint) string {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if g.T != w.T || !sameFloat(g.F, w.F) {
			return fmt.Sprintf("point %d of %d is %v (%x) at %d, want %v (%x) at %d", i, len(got), g.F, math.Float64bits(g.F), g.T, w.F, math.Float64bits(w.F), w.T)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d points, want %d: %v, want %v", len(got), len(want), first(got), first(want))
	}
	return ""
}

func histogramsDiffer(got, want []promql.HPoint) string {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if g.T != w.T || !sameHistogram(g.H, w.H) {
			return fmt.Sprintf("histogram %d of %d is %s at %d, want %s at %d", i, len(got), g.H.TestExpression(), g.T, w.H.TestExpression(), w.T)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d histograms, want %d: %v, want %v", len(got), len(want), first(got), first(want))
	}
	return ""
}

func first[T any](of []T) []T { return of[:min(len(of), 5)] }

func sameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// sameHistogram compares all but the hint, which Prometheus derives from the bounds of
// its chunks. Empty spans count for nothing.
func sameHistogram(a, b *histogram.FloatHistogram) bool {
	a, b = a.Copy().Compact(0), b.Copy().Compact(0)
	return a.Schema == b.Schema && sameFloat(a.Sum, b.Sum) && sameFloat(a.Count, b.Count) &&
		sameFloat(a.ZeroThreshold, b.ZeroThreshold) && sameFloat(a.ZeroCount, b.ZeroCount) &&
		slices.Equal(a.PositiveSpans, b.PositiveSpans) && slices.Equal(a.NegativeSpans, b.NegativeSpans) &&
		slices.EqualFunc(a.PositiveBuckets, b.PositiveBuckets, sameFloat) && slices.EqualFunc(a.NegativeBuckets, b.NegativeBuckets, sameFloat) &&
		slices.EqualFunc(a.CustomValues, b.CustomValues, sameFloat) && (a.CounterResetHint == histogram.GaugeType) == (b.CounterResetHint == histogram.GaugeType)
}
