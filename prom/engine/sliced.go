package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// sliceSteps is how many steps of a query with count_values are evaluated at a time.
const sliceSteps = 8

// sliced evaluates an expression some steps at a time. count_values may make a series
// of each sample, and Prometheus' engine gives each of them room for all steps: a query
// with 400 steps over 5,000 series took 2.6 GB. What a slice takes has a bound, and
// what it gives is charged as it comes. Between slices the query can end.
func (r *run) sliced(req *Request, expr parser.Expr, sink Sink, size int) (*Outcome, error) {
	steps := req.steps()
	total := &gathered{run: r, places: map[string]int{}}
	var notes annotations.Annotations
	sum := &stats.Statistics{Timers: stats.NewQueryTimers(), Samples: stats.NewQuerySamples(false)}
	timer := sum.Timers.GetTimer(stats.ExecTotalTime).Start()
	for first := 0; first < steps; first += size {
		if first > 0 { // the engine leaves its results in the tree
			if err := r.pause(); err != nil {
				return nil, err
			}
			var err error
			if expr, err = r.tree(req); err != nil {
				return nil, err
			}
		}
		part := *req
		part.StepStats = false
		part.Start = req.Start.Add(time.Duration(first) * req.step())
		part.End = req.Start.Add(time.Duration(min(first+size, steps)-1) * req.step())
		others := r.claim.Held() - total.bytes
		err := r.engine(&part, expr, maxReads, func(res *promql.Result, s *stats.Statistics) error {
			notes.Merge(res.Warnings)
			sum.Samples.TotalSamples += s.Samples.TotalSamples
			sum.Samples.SamplesRead += s.Samples.SamplesRead
			sum.Samples.UpdatePeak(s.Samples.PeakSamples)
			return total.add(res.Value.(promql.Matrix))
		})
		if err != nil {
			return nil, err
		}
		_ = r.keep(others + total.bytes - r.claim.Held()) // giving back cannot fail
	}
	timer.Stop()
	sorts, err := r.sorts(req)
	if err != nil {
		return nil, err
	}
	notes.Merge(sorts)
	slices.SortFunc(total.series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	cut, err := r.hand(total.series, req.Limit, sink)
	if err != nil {
		return nil, err
	}
	return r.outcome(req.Expr, notes, cut, sum), nil
}

// sorts returns what Prometheus' engine says about sort in a range query. It does not say
// so of a single step, which a slice may be.
func (r *run) sorts(req *Request) (notes annotations.Annotations, err error) {
	expr, err := r.tree(req)
	if err != nil {
		return nil, err
	}
	if expr, err = promql.PreprocessExpr(expr, req.Start, req.End, req.Step); err != nil {
		return nil, err
	}
	addSorts(expr, &notes)
	return notes, nil
}

// addSorts adds the notes of sort in the order of the engine: of equal notes the last one
// stays.
func addSorts(node parser.Node, to *annotations.Annotations) {
	if _, ok := node.(*parser.StepInvariantExpr); ok {
		return // evaluated at a single step
	}
	for child := range parser.ChildrenIter(node) {
		addSorts(child, to)
	}
	if call, ok := node.(*parser.Call); ok && strings.HasPrefix(call.Func.Name, "sort") {
		to.Add(annotations.NewSortInRangeQueryWarning(call.PosRange))
	}
}

// gathered is a matrix that grows with each slice.
type gathered struct {
	run    *run
	series promql.Matrix
	places map[string]int // of series, by their labels
	key    []byte
	bytes  int64 // charged
}

// add appends the points of a slice. It copies what belongs to the engine.
func (g *gathered) add(slice promql.Matrix) error {
	for i := range slice {
		s := &slice[i]
		g.key = s.Metric.Bytes(g.key[:0])
		place, known := g.places[string(g.key)]
		bytes := int64(2 * pointBytes * (len(s.Floats) + len(s.Histograms))) // of slices that grow
		for _, p := range s.Histograms {
			bytes += int64(p.H.Size())
		}
		if !known {
			bytes += seriesBytes + int64(2*len(g.key))
		}
		if err := g.run.keep(bytes); err != nil {
			return err
		}
		g.bytes += bytes
		if !known {
			place = len(g.series)
			g.places[string(g.key)] = place
			g.series = append(g.series, promql.Series{Metric: s.Metric})
		}
		into := &g.series[place]
		into.Floats = append(into.Floats, s.Floats...)
		into.Histograms = append(into.Histograms, s.Histograms...)
	}
	return nil
}
