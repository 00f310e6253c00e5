package queryable

import (
	"context"

	"tsdbd/model"
	"tsdbd/model/scan"
)

// walks are open cursors over the same times, one for each shard that was asked. A cursor
// walks one measurement after another, with the memory of the walk before.
type walks struct {
	times model.TimeRange
	take  func(bytes int64) error // charges what cursors take
	open  map[uint64]scan.Cursor  // by shard
}

func newWalks(times model.TimeRange, take func(bytes int64) error) *walks {
	return &walks{times: times, take: take, open: map[uint64]scan.Cursor{}}
}

// close closes the cursors.
func (w *walks) close() {
	for _, cursor := range w.open {
		cursor.Close()
	}
}

// each calls do with each series of a request, whose times are those of the walks. The
// cursor is at the series.
func (w *walks) each(ctx context.Context, sh scan.Shard, req scan.Request, do func(model.SeriesID, scan.Cursor) error) error {
	cursor := w.open[sh.ID()]
	if cursor != nil {
		cursor.Again(req)
		return visit(cursor, do)
	}
	req.Range, req.Charge, req.Hold = w.times, w.take, w.take
	cursor, err := sh.Scan(ctx, req)
	if err != nil {
		return err
	}
	w.open[sh.ID()] = cursor
	return visit(cursor, do)
}

// visit calls do with each series of a cursor.
func visit(cursor scan.Cursor, do func(model.SeriesID, scan.Cursor) error) error {
	for {
		id, ok := cursor.NextSeries()
		if !ok {
			return cursor.Err()
		}
		if err := do(id, cursor); err != nil {
			return err
		}
	}
}
