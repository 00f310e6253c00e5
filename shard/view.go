package shard

import (
	"context"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/tsi"
)

// View is a referenced picture of a shard; it implements scan.Shard. Rows that
// are applied later may or may not be seen by it, file and index changes are
// not.
type View struct {
	shard  *Shard
	set    *fileSet
	caches []cut // oldest first; the last one takes rows
	// flushed is the sequence up to which no cache has rows.
	flushed uint64
	left    []scan.Loss // see LeaveDamagedOut
	// pictures, of a Cut, are what the caches held when it was made.
	pictures []*cache.Picture
	index
}

// index answers for a View what the index knows.
type index = tsi.Charged

var _ scan.Shard = (*View)(nil)

// View takes a picture of the shard, or returns nil when it is closed.
func (s *Shard) View() *View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return nil
	}
	v := &View{shard: s, set: s.mu.set, flushed: s.mu.manifest.Flushed, index: s.index.View().Charged(nil)}
	v.set.acquire()
	for _, c := range s.mu.cuts {
		if c.cache.Rows() > 0 {
			v.caches = append(v.caches, c)
		}
	}
	v.caches = append(v.caches, cut{cache: s.mu.active, sequence: math.MaxUint64})
	for _, c := range v.caches {
		c.cache.Acquire()
	}
	return v
}

// Cut is View of the shard as it is now for good: rows that are applied later are not
// seen by it. It is called between two entries.
func (s *Shard) Cut() *View {
	v := s.View()
	if v == nil {
		return nil
	}
	for _, c := range v.caches {
		v.pictures = append(v.pictures, c.cache.Picture())
	}
	return v
}

// Charged returns the view with charge, which is called before memory is taken
// for lists of texts, and whose error ends them. It needs no Release of its own.
func (v *View) Charged(charge func(bytes int64) error) scan.Shard {
	charged := *v
	charged.index = v.index.View.Charged(charge)
	return &charged
}

// Release gives the references back.
func (v *View) Release() {
	for _, p := range v.pictures {
		p.Release()
	}
	for _, c := range v.caches {
		c.cache.Release()
	}
	v.index.Release()
	v.set.release()
}

// ID returns the shard's id.
func (v *View) ID() uint64 { return v.shard.id }

// TimeRange returns the range the shard may hold.
func (v *View) TimeRange() model.TimeRange { return v.shard.times }

// AllSeries returns the set of the shard's series. The caller owns it.
func (v *View) AllSeries() *roaring.Bitmap { return v.index.All() }

// SameIndex reports whether both views have the same picture of the index.
func (v *View) SameIndex(o *View) bool { return v.index.View == o.index.View }

// SeriesSince returns the series that v has and an older view of the shard has
// not. The caller owns the set.
func (v *View) SeriesSince(old *View) *roaring.Bitmap { return v.index.Since(old.index.View) }

// manySeries is the size of a set above which TimeBounds does not look at each
// series but answers from the files' ranges.
const manySeries = 256

// TimeBounds returns a range that holds all rows of the series in set.
func (v *View) TimeBounds(set *roaring.Bitmap) (model.TimeRange, bool) {
	if set == nil || set.GetCardinality() > manySeries {
		return v.bounds()
	}
	r := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	p := v.pieces(context.Background(), model.AllTime)
	for it := set.Iterator(); it.HasNext(); {
		t, ok, err := p.bounds(model.SeriesID(it.Next()))
		if err != nil {
			// The damage is reported by the scan that follows.
			return v.shard.times, true
		}
		if p.crowded {
			return v.bounds()
		}
		if ok {
			r = r.Union(t)
		}
	}
	return r, !r.Empty()
}

// bounds returns a range that holds all rows of the shard.
func (v *View) bounds() (model.TimeRange, bool) {
	r := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	for _, f := range v.set.files {
		r = r.Union(f.reader.Info().Range)
	}
	for _, c := range v.caches {
		if t := c.cache.TimeRange(); !t.Empty() {
			r = r.Union(t)
		}
	}
	return r, !r.Empty()
}
