package store

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/point"
)

// cardinality bounds the series of a database and the values of its tags. What
// lives is counted when the first new series comes after the start, a delete or
// a drop, and kept in step by the writers from then on; without limits nothing
// is counted. It forgets with the gate held, when no write is under way.
//
// A series on its way to a shard takes room from its check on, and gives it back
// if its entry is not applied.
//
// A value that is known costs about 20 bytes, a series a bit.
type cardinality struct {
	*bounds // the store's

	// full says that no new series has room, so that its points are refused
	// before they leave a trace: a field, a layout, an id.
	full atomic.Bool
	told atomic.Bool // the log knows that series are refused

	mu     sync.Mutex            // held while series are admitted; before Store.mu
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

// bounds are the limits of each database; 0 is none. They are read with the
// gate shared and change with it held.
type bounds struct{ maxSeries, maxValues int }

// tagOf is a tag key of a measurement.
type tagOf struct{ measurement, key string }

func (b *bounds) limited() bool { return b.maxSeries > 0 || b.maxValues > 0 }

// SetLimits brings other limits into force. It waits for the writes under way;
// what is above a new limit stays.
func (s *Store) SetLimits(l Limits) {
	s.pacer.rate.Store(l.CompactBytesPerSecond)
	s.gate.Lock()
	defer s.gate.Unlock()
	next := bounds{l.MaxSeriesPerDatabase, l.MaxValuesPerTag}
	if next == s.bounds {
		return
	}
	s.bounds = next
	s.forgetCardinality() // what was not counted is counted anew
}

// forget drops the counts, because series may be gone. The gate is held.
func (c *cardinality) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.living, c.coming, c.tags = nil, nil, nil
	c.full.Store(false)
	c.told.Store(false)
}

// forgetCardinality drops the counts of all databases. The gate is held.
func (s *Store) forgetCardinality() {
	s.mu.RLock()
	databases := slices.Collect(maps.Values(s.mu.databases))
	s.mu.RUnlock()
	for _, db := range databases {
		db.cardinality.forget()
	}
}

func (c *cardinality) seriesReason() string {
	return fmt.Sprintf("max-series-per-database limit exceeded: (%d)", c.maxSeries)
}

// knownSeries reports whether a series has an id, and gives it to one that does
// not know it yet.
func (db *database) knownSeries(sr *point.Series) bool {
	if sr.ID() != 0 {
		return true
	}
	id, ok := db.series.Lookup(sr.Key())
	if ok && !db.series.Claimed(id) {
		sr.SetID(id)
	}
	return ok
}

// admission lets the new series of one batch in, as far as there is room.
type admission struct {
	*cardinality
	db      *database
	shards  []*shardEntry            // of the database
	decided map[*point.Series]string // why a series has no room, "" if it has
	held    []*point.Series          // those that are coming
}

type tagValue struct {
	tag  tagOf
	hash uint64
}

func (r *router) newAdmission() *admission {
	return &admission{cardinality: &r.db.cardinality, db: r.db, shards: r.s.shardsOf(r.db), decided: map[*point.Series]string{}}
}

// count counts what lives, unless that is known. mu is held.
func (a *admission) count() {
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

// admit gives a series that its shard does not list the room it needs, until
// release, or returns why there is none. mu is held.
func (a *admission) admit(sr *point.Series) (reason string, err error) {
	if reason, again := a.decided[sr]; again {
		return reason, nil
	}
	switch n := a.coming[sr.Key()]; {
	case a.db.knownSeries(sr) && a.living.Contains(uint32(sr.ID())): // in another shard
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
			a.full.Store(a.maxSeries > 0 && a.taken() >= a.maxSeries)
		}
	}
	a.decided[sr] = reason
	return reason, nil
}

// taken returns the number of series that take room.
func (c *cardinality) taken() int { return int(c.living.GetCardinality()) + len(c.coming) }

// release ends the batch's hold on room: series that a shard of the batch has by
// now keep theirs.
func (a *admission) release(targets []target) {
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
		stays := slices.ContainsFunc(targets, func(t target) bool { return t.shard.Contains(sr.ID()) })
		if stays {
			a.living.Add(uint32(sr.ID()))
		} else if n.writes > 0 {
			continue
		}
		delete(a.coming, sr.Key())
		a.leave(n, stays)
	}
	a.full.Store(a.maxSeries > 0 && a.taken() >= a.maxSeries)
}

// leave takes a series' values out of those that are coming: they stay, or go
// with the last series that brings them.
func (c *cardinality) leave(n *newSeries, stay bool) {
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
func (a *admission) room(n *newSeries, sr *point.Series) (reason string, err error) {
	if a.maxSeries > 0 && a.taken() >= a.maxSeries {
		return a.seriesReason(), nil
	}
	if a.maxValues <= 0 {
		return "", nil
	}
	measurement, tags := model.ParseSeriesKey(sr.Key(), nil)
	for _, t := range tags {
		if t.Value == "" {
			continue // the same as no tag
		}
		tag := tagOf{measurement, t.Key}
		have, err := a.known(tag)
		if err != nil {
			a.leave(n, false)
			return "", err
		}
		h := maphash.String(a.seed, t.Value)
		brought, known := have[h]
		if brought == settled {
			continue
		}
		if !known && len(have) >= a.maxValues {
			reason := fmt.Sprintf("max-values-per-tag limit exceeded (%d/%d): measurement=%q tag=%q value=%q",
				len(have), a.maxValues, measurement, t.Key, t.Value)
			a.leave(n, false)
			return reason, nil
		}
		have[h] = brought + 1
		n.values = append(n.values, tagValue{tag, h})
	}
	return "", nil
}

// known returns the values of a tag, which are read at the first use.
func (a *admission) known(tag tagOf) (_ map[uint64]int32, err error) {
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

// shardsOf returns the open shards of a database.
func (s *Store) shardsOf(db *database) []*shardEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []*shardEntry
	for _, e := range s.mu.shards {
		if e.db == db {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *shardEntry) int { return cmp.Compare(a.ID(), b.ID()) })
	return list
}
