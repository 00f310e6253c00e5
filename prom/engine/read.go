package engine

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"tsdbd/model/scan"
	"tsdbd/prom/queryable"
)

// Series is a series with its samples.
type Series = storage.Series

// Selection chooses the samples of series.
type Selection struct {
	Start, End int64 // ms since the epoch, both inclusive
	Matchers   []*labels.Matcher
}

// Read passes the series of each selection to each, in the order of their labels, with
// the number of the selection. A series is valid until each returns. Before the series
// of a selection, warn gets its warnings, such as that points are lost. The error is an
// *Error, or that of each.
func (e *Engine) Read(ctx context.Context, access *Access, selections []Selection, warn func(text string), each func(selection int, s Series) error) error {
	text := func() string {
		var l Lookup
		for _, s := range selections {
			l.Selectors = append(l.Selectors, s.Matchers)
		}
		return l.text("remote read")()
	}
	return e.admit(ctx, access, text, func(r *run) error {
		for i := range selections {
			if err := r.read(&selections[i], warn, func(s Series) error { return each(i, s) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// read passes the series of a selection to each.
func (r *run) read(s *Selection, warn func(string), each func(Series) error) error {
	src := source{run: r}
	q, err := src.Querier(s.Start, s.End)
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(r.ctx, true, &storage.SelectHints{Start: s.Start, End: s.End}, s.Matchers...)
	for _, text := range noted(set.Warnings(), false).Warnings {
		warn(text)
	}
	for set.Next() {
		if err := r.pause(); err != nil {
			return err
		}
		if r.failed = each(set.At()); r.failed != nil {
			return r.failed
		}
	}
	return set.Err()
}

// SharedRowsError refuses to delete a metric whose rows have other metrics too.
type SharedRowsError = queryable.SharedRowsError

// Deletes returns the requests that delete the rows of the series that selectors choose,
// between two times, both inclusive. An error is an *Error; the storage may find a
// *SharedRowsError.
func (e *Engine) Deletes(access *Access, texts []string, start, end time.Time) (requests []scan.DeleteRequest, err error) {
	sets, err := e.Selectors(texts)
	if err != nil {
		return nil, err
	}
	src := queryable.Source{Storage: e.opt.Storage, DB: access.DB, RP: access.RP}
	for _, matchers := range sets {
		req, err := src.Delete(start.UnixMilli(), end.UnixMilli(), matchers)
		if err != nil {
			return nil, &Error{BadData, err}
		}
		requests = append(requests, req)
	}
	return requests, nil
}
