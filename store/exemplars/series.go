package exemplars

import (
	"context"
	"time"

	"tsdbd/model"
)

// Series are the series of a database.
type Series interface {
	Lookup(key string) (model.SeriesID, bool)
	// Claimed reports whether no applied entry has the series yet.
	Claimed(id model.SeriesID) bool
	Key(id model.SeriesID) (string, error)
}

// Memory returns how many bytes the exemplars of a request take until they are applied.
func Memory(list []model.Exemplar) (bytes int64) {
	for i := range list {
		bytes += 2*Overhead + int64(2*len(list[i].Labels))
	}
	return bytes
}

// maxAhead is how far an exemplar may be ahead of the clock, as in Prometheus: a later one
// would keep all others of its series out.
const maxAhead = 10 * time.Minute

// Known returns those exemplars that are of series which a database has, and not too far
// ahead of the clock.
func Known(ctx context.Context, database uint32, list []model.Exemplar, now time.Time, series Series) ([]Exemplar, error) {
	until := now.Add(maxAhead).UnixMilli()
	known := make([]Exemplar, 0, len(list))
	for i := range list {
		e := &list[i]
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		id, ok := series.Lookup(e.Series)
		if ok && !series.Claimed(id) && e.Time <= until {
			known = append(known, Exemplar{Database: database, Series: id, Time: e.Time, Value: e.Value, Labels: e.Labels})
		}
	}
	return known, nil
}

// Named is Select with the keys of the series. It charges for the exemplars first. Those of
// a series whose key cannot be read are left out.
func (r *Ring) Named(ctx context.Context, database uint32, start, end int64, series Series, charge func(bytes int64) error) ([]model.Exemplar, error) {
	n, bytes := r.Held()
	if err := charge(bytes + int64(n)*2*Overhead); err != nil {
		return nil, err
	}
	found := r.Select(database, start, end)
	keys := map[model.SeriesID]string{}
	out := make([]model.Exemplar, 0, len(found))
	for i := range found {
		e := &found[i]
		key, ok := keys[e.Series]
		if !ok {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var err error
			if key, err = series.Key(e.Series); err != nil {
				continue
			}
			if err := charge(int64(len(key))); err != nil {
				return nil, err
			}
			keys[e.Series] = key
		}
		out = append(out, model.Exemplar{Series: key, Time: e.Time, Value: e.Value, Labels: e.Labels})
	}
	return out, nil
}
