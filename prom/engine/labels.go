package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/internal/smallest"
	"tsdbd/prom/metadata"
)

// Lookup asks for the labels of series.
type Lookup struct {
	Access
	// Selectors are alternatives. None: all series.
	Selectors  [][]*labels.Matcher
	Start, End time.Time
	Limit      int // of the result; 0 is no limit
}

// text writes a lookup out, for SHOW QUERIES.
func (l *Lookup) text(what string) func() string {
	return func() string {
		var b strings.Builder
		b.WriteString(what)
		for i, set := range l.Selectors {
			if i > 0 {
				b.WriteString(" or")
			}
			b.WriteString(" {")
			for j, m := range set {
				if j > 0 {
					b.WriteByte(',')
				}
				b.WriteString(m.String())
			}
			b.WriteByte('}')
		}
		return b.String()
	}
}

// hintLimit is Limit and one more, which shows that the result was cut.
func (l *Lookup) hintLimit() int {
	if l.Limit > 0 {
		return l.Limit + 1
	}
	return 0
}

// contextRows is after how many rows a loop looks at the context.
const contextRows = 256

// Series passes the labels of the series to each, in the order of the labels. The error is an
// *Error, or that of each.
func (e *Engine) Series(ctx context.Context, l *Lookup, each func(labels.Labels) error) (out *Outcome, err error) {
	err = e.admit(ctx, &l.Access, l.text("series"), func(r *run) error {
		all, err := r.queriers(l)
		if err != nil {
			return err
		}
		defer all.close()
		n := 0
		notes, err := r.each(all, l, "series", func(s storage.Series) error {
			if l.Limit > 0 && n == l.Limit {
				return errLimit
			}
			n++
			r.failed = each(s.Labels())
			return r.failed
		})
		cut := errors.Is(err, errLimit)
		if err != nil && !cut {
			return err
		}
		out = noted(notes, cut)
		return nil
	})
	return out, err
}

// each passes the series that the selectors of a lookup choose to do, in the order of their
// labels. A series that several selectors choose comes once.
func (r *run) each(of queriers, l *Lookup, function string, do func(storage.Series) error) (notes annotations.Annotations, err error) {
	hints := &storage.SelectHints{Start: l.Start.UnixMilli(), End: l.End.UnixMilli(), Func: function, Limit: l.hintLimit()}
	var sets []storage.SeriesSet
	for _, q := range of {
		for _, matchers := range l.Selectors {
			sets = append(sets, q.Select(r.ctx, true, hints, matchers...))
		}
	}
	var all storage.SeriesSet
	if len(sets) == 1 {
		all = sets[0]
	} else {
		all = storage.NewMergeSeriesSet(sets, 0, func(same ...storage.Series) storage.Series { return same[0] })
	}
	for n := 0; all.Next(); n++ {
		if n%contextRows == 0 {
			err = r.pause()
		}
		if err == nil {
			err = do(all.At())
		}
		if err != nil {
			return all.Warnings(), err
		}
	}
	return all.Warnings(), all.Err()
}

// LabelNames returns the names of the labels of series, sorted.
func (e *Engine) LabelNames(ctx context.Context, l *Lookup) ([]string, *Outcome, error) {
	return e.list(ctx, l, "labels", func(r *run, q storage.Querier, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(r.ctx, &storage.LabelHints{Limit: l.hintLimit()}, matchers...)
	})
}

// LabelValues returns the values that a label has in series, sorted.
func (e *Engine) LabelValues(ctx context.Context, l *Lookup, name string) ([]string, *Outcome, error) {
	return e.list(ctx, l, "label values "+strconv.Quote(name), func(r *run, q storage.Querier, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(r.ctx, name, &storage.LabelHints{Limit: l.hintLimit()}, matchers...)
	})
}

// Metadata returns what senders said about metrics, sorted by metric: about one, or
// about all if metric is "". Limits are of the metrics and of the entries of each; 0 is no
// limit.
func (e *Engine) Metadata(ctx context.Context, access *Access, metric string, limit, perMetric int) (entries []metadata.Entry, out *Outcome, err error) {
	out = new(Outcome)
	warn := func(text string) { out.Warnings = append(out.Warnings, text) }
	err = e.admit(ctx, access, func() string { return "metadata " + strconv.Quote(metric) }, func(r *run) error {
		entries, err = metadata.Read(r.ctx, r.storage(), access.DB, access.RP, metadata.ReadOptions{Metric: metric, Limit: limit, PerMetric: perMetric, Charge: r.keep, Warn: warn})
		if r.lacks(err) {
			return nil
		}
		return err
	})
	return entries, out, err
}

// list joins the texts that f finds for each selector.
func (e *Engine) list(ctx context.Context, l *Lookup, what string, f func(*run, storage.Querier, []*labels.Matcher) ([]string, annotations.Annotations, error)) (list []string, out *Outcome, err error) {
	err = e.admit(ctx, &l.Access, l.text(what), func(r *run) error {
		queriers, err := r.queriers(l)
		if err != nil {
			return err
		}
		defer queriers.close()
		var notes annotations.Annotations
		bytes := func(text string) int64 { return 2*textBytes + int64(len(text)) } // in a list that grows
		all := smallest.New(l.hintLimit(), strings.Compare, bytes, r.keep)
		sets := l.Selectors
		if len(sets) == 0 {
			sets = [][]*labels.Matcher{nil}
		}
		single := len(sets)*len(queriers) == 1
		for i := range len(sets) * len(queriers) {
			if err := r.pause(); err != nil {
				return err
			}
			found, more, err := f(r, queriers[i/len(sets)], sets[i%len(sets)])
			if err != nil {
				return err
			}
			notes.Merge(more)
			if single {
				list = found
				break
			}
			for _, text := range found {
				if err := all.Add(text); err != nil {
					return err
				}
			}
		}
		if !single {
			list = all.Sorted()
		}
		cut := l.Limit > 0 && len(list) > l.Limit
		if cut {
			list = list[:l.Limit]
		}
		out = noted(notes, cut)
		return nil
	})
	return list, out, err
}

// textBytes is the header of a text.
const textBytes = 16

// querier opens the policy of a lookup.
func (r *run) querier(l *Lookup) (storage.Querier, error) {
	src := source{run: r}
	return src.Querier(l.Start.UnixMilli(), l.End.UnixMilli())
}

// queriers are readers of labels.
type queriers []storage.Querier

// queriers opens the policy of a lookup, and its targets for times of which it has lost samples.
// The caller closes them.
func (r *run) queriers(l *Lookup) (queriers, error) {
	q, err := r.querier(l)
	if err != nil || r.stored == nil {
		return queriers{q}, err
	}
	targets, err := r.stored.Labels(l.Start.UnixMilli(), l.End.UnixMilli())
	all := append(queriers{q}, targets...)
	if err != nil {
		all.close()
	}
	return all, err
}

func (all queriers) close() {
	for _, q := range all {
		_ = q.Close() // returns nil
	}
}

// pause lets other queries work, and returns an error if the query has ended.
func (r *run) pause() error {
	if err := r.turn.Yield(r.ctx); err != nil {
		return err
	}
	return r.ctx.Err()
}

// noted returns the outcome of a lookup.
func noted(notes annotations.Annotations, cut bool) *Outcome {
	if cut {
		notes.Add(errTruncated)
	}
	out := new(Outcome)
	out.Warnings, out.Infos = notes.AsStrings("", 0, 0)
	return out
}
