package metadata

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// ReadOptions choose what Read returns. The zero value is all of it.
type ReadOptions struct {
	Metric string // "": all metrics
	Limit  int    // of metrics; 0: no limit
	// Charge is called before memory is taken, with its bytes. Its error ends Read.
	// nil: memory has no bound.
	Charge func(bytes int64) error
}

// entryBytes is the memory of an entry without its texts.
const entryBytes = 4*16 + 32

// Read returns the newest entry of each metric in the order of the metrics. The errors
// of Storage.View say that the database or the policy does not exist.
func Read(ctx context.Context, storage scan.Storage, db, rp string, opt ReadOptions) ([]Entry, error) {
	if opt.Charge == nil {
		opt.Charge = func(int64) error { return nil }
	}
	view, err := storage.View(db, rp, model.AllTime)
	if err != nil {
		return nil, err
	}
	defer view.Release()
	r := reader{view: view, opt: opt, seen: roaring.New()}
	for _, sh := range slices.Backward(view.Shards()) { // the newest first
		if err := r.shard(ctx, sh); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r.entries, func(a, b Entry) int { return cmp.Compare(a.Metric, b.Metric) })
	r.entries = slices.CompactFunc(r.entries, func(a, b Entry) bool { return a.Metric == b.Metric }) // series with more tags
	if opt.Limit > 0 && len(r.entries) > opt.Limit {
		r.entries = r.entries[:opt.Limit]
	}
	return r.entries, nil
}

// reader gathers the newest rows.
type reader struct {
	view    scan.View
	opt     ReadOptions
	seen    *roaring.Bitmap // series that have an entry
	entries []Entry
}

// shard adds the entries of a shard of metrics that no newer shard has.
func (r *reader) shard(ctx context.Context, sh scan.Shard) error {
	var where *model.TagExpr
	if r.opt.Metric != "" {
		where = &model.TagExpr{Op: model.TagEqual, Key: metricTag, Value: r.opt.Metric}
	}
	ids, err := sh.Select(ctx, Measurement, where)
	if err != nil {
		return err
	}
	ids.AndNot(r.seen)
	if ids.IsEmpty() {
		return nil
	}
	c, err := sh.Scan(ctx, scan.Request{Measurement: Measurement, Series: ids, Fields: fields, Range: model.AllTime, Charge: r.opt.Charge, Hold: r.opt.Charge, Descending: true})
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		id, ok := c.NextSeries()
		if !ok {
			return c.Err()
		}
		if chunk := c.NextChunk(); chunk != nil { // the newest
			if err := r.add(id, chunk); err != nil {
				return err
			}
		}
	}
}

// add adds the last row of a chunk.
func (r *reader) add(id model.SeriesID, chunk scan.Chunk) error {
	key, err := r.view.SeriesKey(id)
	if err != nil {
		return err
	}
	var e Entry
	_, tags := model.ParseSeriesKey(key, nil)
	for _, t := range tags {
		if t.Key == metricTag {
			e.Metric = strings.Clone(t.Value)
		}
	}
	for i, text := range []*string{&e.Type, &e.Help, &e.Unit} {
		col, err := chunk.Column(i)
		if err != nil {
			return err
		}
		last := chunk.Len() - 1
		if col.Type != model.String || !col.IsValid(last) {
			continue
		}
		if *text, err = r.text(col, last); err != nil {
			return err
		}
	}
	if e.Metric == "" {
		return nil // not written by Append
	}
	e.Type = cmp.Or(e.Type, Unknown)
	if err := r.opt.Charge(entryBytes + int64(len(e.Metric))); err != nil {
		return err
	}
	r.seen.Add(uint32(id))
	r.entries = append(r.entries, e)
	return nil
}

// text returns a copy of a text, because the chunk takes the text away.
func (r *reader) text(col *column.Vector, row int) (string, error) {
	text := col.Strings[row]
	if err := r.opt.Charge(int64(len(text))); err != nil {
		return "", err
	}
	return strings.Clone(text), nil
}
