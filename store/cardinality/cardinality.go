// Package cardinality bounds the series of a database and the values of its tags.
//
// A write asks an Admission for the room of each series that its shard does not
// list, between its checks and the application of its entry. What is admitted counts
// until Release, and from then on if a shard has it.
package cardinality

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/ordered"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/shard"
)

// Counter counts the series of a database and the values of its tags. What
// lives is counted when the first new series comes after the start, a delete or
// a drop, and kept in step by the writers from then on; without limits nothing
// is counted. It forgets when no write is under way.
//
// A series on its way to a shard takes room from its check on, and gives it back
// if its entry is not applied.
//
// A value that is known costs about 20 bytes, a series a bit.
type Counter struct {
	*Bounds // the same for all databases

	// Full says that no new series has room, so that its points are refused
	// before they leave a trace: a field, a layout, an id.
	Full   atomic.Bool
	Logged atomic.Bool // that series are refused

	mu     ordered.Mutex         // held while series are admitted
	living *roaring.Bitmap       // series of all shards; nil: not counted
	coming map[string]*newSeries // series on their way to a shard, by key
	seed   maphash.Seed
	tags   map[tagOf]map[uint64]int32 // of the tags of new series: how many coming series have a value, by its hash, or settled
}

// settled is the number of coming series of a value that a shard has.
const settled = -1

// newSeries is a series on its way to a shard.
type newSeries struct {
	writes int        // that bring it
	values []tagValue // those that no shard had
}

// Bounds are the limits of each database; 0 is none. They do not change while writes
// are under way. An index enforces MaxFields; the others need a Counter.
type Bounds struct {
	MaxSeries, MaxValues int
	MaxFields            int // of a measurement, in a shard
}

// tagOf is a tag key of a measurement.
type tagOf struct{ measurement, key string }

// Limited reports whether there is a limit of series or of values.
func (b *Bounds) Limited() bool { return b.MaxSeries > 0 || b.MaxValues > 0 }

// New returns a Counter with bounds.
func New(b *Bounds) *Counter {
	c := &Counter{Bounds: b}
	c.mu.SetRank(ordered.StoreAdmitting)
	return c
}

// Forget drops the counts, because series may be gone. No write is under way.
func (c *Counter) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.living, c.coming, c.tags = nil, nil, nil
	c.Full.Store(false)
	c.Logged.Store(false)
}

// SeriesReason says why a series has no room.
func (c *Counter) SeriesReason() string {
	return fmt.Sprintf("max-series-per-database limit exceeded: (%d)", c.MaxSeries)
}

// Admission lets the new series of one batch in, as far as there is room.
type Admission struct {
	*Counter
	known   func(*point.Series) bool // whether a series has an id, which it gets then
	shards  []*shard.Shard           // of the database
	decided map[*point.Series]string // why a series has no room, "" if it has
	held    []*point.Series          // those that are coming
}

type tagValue struct {
	tag  tagOf
	hash uint64
}

// Admission returns an Admission for a batch. known reports whether a series has an
// id, and gives it to one that does not know it yet.
func (c *Counter) Admission(shards []*shard.Shard, known func(*point.Series) bool) *Admission {
	return &Admission{Counter: c, known: known, shards: shards, decided: map[*point.Series]string{}}
}

// Begin holds back other batches until the returned function is called. Admit is
// called in between.
func (a *Admission) Begin() (end func()) {
	a.mu.Lock()
	a.count()
	return a.mu.Unlock
}

// count counts what lives, unless that is known. mu is held.
func (a *Admission) count() {
	if a.living != nil {
		return
	}
	a.living, a.coming, a.seed, a.tags = roaring.New(), map[string]*newSeries{}, maphash.MakeSeed(), map[tagOf]map[uint64]int32{}
	for _, e := range a.shards {
		if v := e.View(); v != nil {
			a.living.Or(v.AllSeries())
			v.Release()
		}
	}
}

// Admit gives a series that its shard does not list the room it needs, until
// Release, or returns why there is none. mu is held.
func (a *Admission) Admit(sr *point.Series) (reason string, err error) {
	if reason, again := a.decided[sr]; again {
		return reason, nil
	}
	switch n := a.coming[sr.Key()]; {
	case a.known(sr) && a.living.Contains(uint32(sr.ID())): // in another shard
	case n != nil:
		n.writes++
		a.held = append(a.held, sr)
	default:
		n = &newSeries{writes: 1}
		if reason, err = a.room(n, sr); err != nil {
			return "", err
		}
		if reason == "" {
			a.coming[sr.Key()] = n
			a.held = append(a.held, sr)
			a.Full.Store(a.MaxSeries > 0 && a.taken() >= a.MaxSeries)
		}
	}
	a.decided[sr] = reason
	return reason, nil
}

// taken returns the number of series that take room.
func (c *Counter) taken() int { return int(c.living.GetCardinality()) + len(c.coming) }

// Release ends the batch's hold on room: series that one of the batch's shards has by
// now keep theirs.
func (a *Admission) Release(shards []*shard.Shard) {
	if len(a.held) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sr := range a.held {
		n := a.coming[sr.Key()]
		if n == nil {
			continue // another write has brought it
		}
		n.writes--
		stays := slices.ContainsFunc(shards, func(s *shard.Shard) bool { return s.Contains(sr.ID()) })
		if stays {
			a.living.Add(uint32(sr.ID()))
		} else if n.writes > 0 {
			continue
		}
		delete(a.coming, sr.Key())
		a.leave(n, stays)
	}
	a.Full.Store(a.MaxSeries > 0 && a.taken() >= a.MaxSeries)
}

// leave takes a series' values out of those that are coming: they stay, or go
// with the last series that brings them.
func (c *Counter) leave(n *newSeries, stay bool) {
	for _, v := range n.values {
		have := c.tags[v.tag]
		switch {
		case stay:
			have[v.hash] = settled
		case have[v.hash] > 1:
			have[v.hash]--
		case have[v.hash] == 1:
			if delete(have, v.hash); len(have) == 0 {
				delete(c.tags, v.tag) // of a tag that nothing else has
			}
		}
	}
	n.values = nil
}

// room says why there is no room for one more series, or "", and then n holds
// its new values.
func (a *Admission) room(n *newSeries, sr *point.Series) (reason string, err error) {
	if a.MaxSeries > 0 && a.taken() >= a.MaxSeries {
		return a.SeriesReason(), nil
	}
	if a.MaxValues <= 0 {
		return "", nil
	}
	measurement, tags := model.ParseSeriesKey(sr.Key(), nil)
	for _, t := range tags {
		if t.Value == "" {
			continue // the same as no tag
		}
		tag := tagOf{measurement, t.Key}
		have, err := a.valuesOf(tag)
		if err != nil {
			a.leave(n, false)
			return "", err
		}
		h := maphash.String(a.seed, t.Value)
		brought, known := have[h]
		if brought == settled {
			continue
		}
		if !known && len(have) >= a.MaxValues {
			reason := fmt.Sprintf("max-values-per-tag limit exceeded (%d/%d): measurement=%q tag=%q value=%q",
				len(have), a.MaxValues, measurement, t.Key, t.Value)
			a.leave(n, false)
			return reason, nil
		}
		have[h] = brought + 1
		n.values = append(n.values, tagValue{tag, h})
	}
	return "", nil
}

// valuesOf returns the values of a tag, which are read at the first use.
func (a *Admission) valuesOf(tag tagOf) (_ map[uint64]int32, err error) {
	defer vfs.CatchFault(&err)()
	if have, ok := a.tags[tag]; ok {
		return have, nil
	}
	have := map[uint64]int32{}
	for _, e := range a.shards {
		v := e.View()
		if v == nil {
			continue
		}
		values, err := v.TagValues(tag.measurement, tag.key, nil)
		v.Release()
		if err != nil {
			return nil, fmt.Errorf("count the values of tag %s of %s: %w", tag.key, tag.measurement, err)
		}
		for _, value := range values {
			have[maphash.String(a.seed, value)] = settled
		}
	}
	a.tags[tag] = have
	return have, nil
}
