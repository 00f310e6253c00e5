package metadata

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/prom"
)

// ReadOptions choose what Read returns. The zero value is all of it.
type ReadOptions struct {
	Metric string // "": all metrics
	Limit  int    // of metrics; 0: no limit
	// PerMetric bounds the entries of a metric; 0: no limit.
	PerMetric int
	// Charge is called before memory is taken, with its bytes. Its error ends Read.
	// nil: memory has no bound.
	Charge func(bytes int64) error
	// Warn is called with each loss that the answer suffers from. nil: ignored.
	Warn func(text string)
}

// entryBytes is the memory of an entry without its texts: in a list, and among those that
// are known.
const entryBytes = 2 * (4*16 + 8 + 32)

// current is how much older than the newest row of a metric those rows may be that still
// count. A sender repeats an entry in each hour, early or late.
const current = int64(2 * time.Hour)

// Read returns the entries of each metric that are in its current rows, in the order of the
// metrics, of each the newest first. The errors of Storage.View say that the database or the
// policy does not exist.
func Read(ctx context.Context, storage scan.Storage, db, rp string, opt ReadOptions) ([]Entry, error) {
	if opt.Charge == nil {
		opt.Charge = func(int64) error { return nil }
	}
	view, err := storage.View(db, rp, model.AllTime)
	if err != nil {
		return nil, err
	}
	defer view.Release()
	if opt.Warn != nil {
		for _, text := range scan.Notes(view, model.AllTime) {
			opt.Warn(text)
		}
	}
	r := reader{view: view, opt: opt, done: roaring.New(), newest: make(map[model.SeriesID]int64), known: make(map[Entry]int)}
	for _, sh := range slices.Backward(view.Shards()) { // the newest first
		if err := r.shard(ctx, sh); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r.rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(b.at, a.at)) })
	return r.choose(), nil
}

// choose returns the entries of the current rows.
func (r *reader) choose() (entries []Entry) {
	metrics, of := 0, 0 // entries of the metric
	var newest int64    // row of the metric
	for i, one := range r.rows {
		if i == 0 || one.Metric != r.rows[i-1].Metric {
			if metrics++; r.opt.Limit > 0 && metrics > r.opt.Limit {
				break
			}
			newest, of = one.at, 0
		}
		if one.at < newest-current || r.opt.PerMetric > 0 && of == r.opt.PerMetric {
			continue
		}
		of++
		entries = append(entries, one.Entry)
	}
	return entries
}

// row is an entry and the time of its newest row.
type row struct {
	Entry
	at int64
}

// reader gathers rows, the newest first.
type reader struct {
	view   scan.View
	opt    ReadOptions
	done   *roaring.Bitmap // series of which all current rows are read
	newest map[model.SeriesID]int64
	known  map[Entry]int // to the place in rows
	rows   []row
}

// shard adds the current rows of a shard.
func (r *reader) shard(ctx context.Context, sh scan.Shard) error {
	var where *model.TagExpr
	if r.opt.Metric != "" {
		where = &model.TagExpr{Op: model.TagEqual, Key: metricTag, Value: r.opt.Metric}
	}
	ids, err := sh.Select(ctx, Measurement, where)
	if err != nil {
		return err
	}
	ids.AndNot(r.done)
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
		metric, err := r.metric(id)
		if err != nil {
			return err
		}
		for chunk := c.NextChunk(); chunk != nil && metric != ""; chunk = c.NextChunk() {
			if _, ok := r.newest[id]; !ok {
				r.newest[id] = chunk.Max()
			}
			if chunk.Max() < r.newest[id]-current {
				break
			}
			if err := r.add(metric, r.newest[id]-current, chunk); err != nil {
				return err
			}
		}
		if newest, ok := r.newest[id]; ok && newest-current >= sh.TimeRange().Min {
			r.done.Add(uint32(id))
		}
	}
}

// metric returns the metric of a series, or "" if Append has not written it.
func (r *reader) metric(id model.SeriesID) (string, error) {
	key, err := r.view.SeriesKey(id)
	if err != nil {
		return "", err
	}
	_, tags := model.ParseSeriesKey(key, nil)
	for _, t := range tags {
		if t.Key == metricTag {
			return strings.Clone(prom.Text(t.Value)), nil
		}
	}
	return "", nil
}

// add adds the rows of a chunk that are not older than oldest and say something new.
func (r *reader) add(metric string, oldest int64, chunk scan.Chunk) error {
	times, err := chunk.Times()
	if err != nil {
		return err
	}
	var columns [3]*column.Vector
	for i := range columns {
		if columns[i], err = chunk.Column(i); err != nil {
			return err
		}
	}
	for i := len(times) - 1; i >= 0 && times[i] >= oldest; i-- {
		e := Entry{Metric: metric}
		for k, text := range []*string{&e.Type, &e.Help, &e.Unit} {
			if col := columns[k]; col.Type == model.String && col.IsValid(i) {
				*text = col.Strings[i]
			}
		}
		e.Type = cmp.Or(e.Type, Unknown)
		if at, ok := r.known[e]; ok { // a series with more tags may have a newer row of it
			r.rows[at].at = max(r.rows[at].at, times[i])
			continue
		}
		if err := r.opt.Charge(entryBytes + int64(len(e.Metric)+len(e.Type)+len(e.Help)+len(e.Unit))); err != nil {
			return err
		}
		e.Type, e.Help, e.Unit = strings.Clone(e.Type), strings.Clone(e.Help), strings.Clone(e.Unit) // the chunk takes them away
		r.known[e] = len(r.rows)
		r.rows = append(r.rows, row{e, times[i]})
	}
	return nil
}
