package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/model"
	"tsdbd/prom"
)

// Exemplars has exemplars.
type Exemplars interface {
	// Exemplars returns those of a database between two times in milliseconds, both
	// inclusive. Those of a series are in order. It charges for them first.
	Exemplars(ctx context.Context, database string, start, end int64, charge func(bytes int64) error) ([]model.Exemplar, error)
}

// SeriesExemplars are the exemplars of a series.
type SeriesExemplars struct {
	Labels labels.Labels
	List   []model.Exemplar
}

// Exemplars returns the exemplars of the series that the selectors of a query choose, in
// the order of their labels. selects is false if the query has no selector. The error is an
// *Error.
func (e *Engine) Exemplars(ctx context.Context, access *Access, text string, start, end time.Time) (found []SeriesExemplars, selects bool, err error) {
	err = e.admit(ctx, access, func() string { return text }, func(r *run) error {
		expr, err := r.parse(text)
		if err != nil {
			return err
		}
		sets := parser.ExtractSelectors(expr)
		if selects = len(sets) > 0; !selects || e.opt.Exemplars == nil {
			return nil
		}
		all, err := e.opt.Exemplars.Exemplars(r.ctx, access.DB, start.UnixMilli(), end.UnixMilli(), r.keep)
		if err != nil {
			if r.lacks(err) {
				return nil
			}
			return err
		}
		found, err = r.choose(all, sets)
		return err
	})
	return found, selects, err
}

// choose returns the exemplars of the series that one of the selectors chooses.
func (r *run) choose(all []model.Exemplar, sets [][]*labels.Matcher) (found []SeriesExemplars, err error) {
	slices.SortStableFunc(all, func(a, b model.Exemplar) int { return cmp.Compare(a.Series, b.Series) })
	b := labels.NewScratchBuilder(16)
	var tags model.Tags
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Series == all[0].Series {
			n++
		}
		if err := r.pause(); err != nil {
			return nil, err
		}
		var measurement string
		measurement, tags = model.ParseSeriesKey(all[0].Series, tags[:0])
		if ls := prom.Labels(&b, measurement, tags); chosen(ls, sets) {
			if err := r.keep(seriesBytes + int64(ls.ByteSize())); err != nil {
				return nil, err
			}
			found = append(found, SeriesExemplars{ls, all[:n]})
		}
		all = all[n:]
	}
	slices.SortFunc(found, func(a, b SeriesExemplars) int { return labels.Compare(a.Labels, b.Labels) })
	return found, nil
}

// chosen reports whether all matchers of a selector match.
func chosen(ls labels.Labels, sets [][]*labels.Matcher) bool {
	return slices.ContainsFunc(sets, func(set []*labels.Matcher) bool {
		return !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
	})
}
