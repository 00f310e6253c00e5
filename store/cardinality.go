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

	"tsdbd/column"
	"tsdbd/model"
)

// cardinality bounds the series of a database and the values of its tags. What
// lives is counted when the first new series comes after the start, a delete or
// a drop, and kept in step by the writers from then on; without limits nothing
// is counted. It forgets with the gate held and counts with it shared, so what
// is on its way to a shard is counted here before the shard knows it.
//
// A value that is known costs about 16 bytes, a series a bit.
type cardinality struct {
	*bounds // the store's

	// full says that no new series has room, so that its points are refused
	// before they leave a trace: a field, a layout, an id.
	full atomic.Bool
	told atomic.Bool // the log knows that series are refused

	mu     sync.Mutex      // held while series are admitted; before Store.mu
	living *roaring.Bitmap // series of all shards, and those on their way; nil: not counted
	seed   maphash.Seed
	tags   map[tagOf]map[uint64]struct{} // hashes of the values, of the tags that new series have
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
	c.living, c.tags = nil, nil
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
func (db *database) knownSeries(sr *column.Series) bool {
	if sr.ID() != 0 {
		return true
	}
	id, ok := db.series.Lookup(sr.Key())
	if ok {
		sr.SetID(id)
	}
	return ok
}

// admission lets the new series of one batch in, as far as there is room.
type admission struct {
	*cardinality
	db      *database
	shards  []*shardEntry // of the database
	fresh   []*column.Series
	keys    map[string]bool // of fresh: two spellings may be one series
	back    []uint32        // series that have an id and live again
	values  []newValue      // remembered for this batch, to be taken back on an error
	refused map[*column.Series]string
}

type newValue struct {
	tag  tagOf
	hash uint64
}

// admit gives ids to the new series among candidates that have room, in their
// order, and returns why the others have none. The gate is held shared.
func (r *router) admit(candidates []*column.Series) (refused map[*column.Series]string, err error) {
	c := &r.db.cardinality
	c.mu.Lock()
	defer c.mu.Unlock()
	a := admission{cardinality: c, db: r.db, shards: r.s.shardsOf(r.db), keys: map[string]bool{}, refused: map[*column.Series]string{}}
	if c.living == nil {
		c.living, c.seed, c.tags = roaring.New(), maphash.MakeSeed(), map[tagOf]map[uint64]struct{}{}
		for _, e := range a.shards {
			if v := e.View(); v != nil {
				c.living.Or(v.AllSeries())
				v.Release()
			}
		}
	}
	n := int(c.living.GetCardinality())
	for _, sr := range candidates {
		known := r.db.knownSeries(sr)
		if known && c.living.Contains(uint32(sr.ID())) || a.keys[sr.Key()] {
			if !known {
				a.fresh = append(a.fresh, sr)
			}
			continue
		}
		reason, err := a.room(n, sr)
		if err != nil {
			a.takeBack()
			return nil, err
		}
		if reason != "" {
			a.refused[sr] = reason
			continue
		}
		n++
		a.keys[sr.Key()] = true
		if known {
			a.back = append(a.back, uint32(sr.ID()))
		} else {
			a.fresh = append(a.fresh, sr)
		}
	}
	if err := r.db.create(a.fresh); err != nil {
		a.takeBack()
		return nil, err
	}
	for _, sr := range a.fresh {
		c.living.Add(uint32(sr.ID()))
	}
	c.living.AddMany(a.back)
	c.full.Store(c.maxSeries > 0 && n >= c.maxSeries)
	return a.refused, nil
}

// room says why there is no room for one more series beside n, or "", and then
// remembers its values.
func (a *admission) room(n int, sr *column.Series) (reason string, err error) {
	if a.maxSeries > 0 && n >= a.maxSeries {
		return a.seriesReason(), nil
	}
	if a.maxValues <= 0 {
		return "", nil
	}
	measurement, tags := model.ParseSeriesKey(sr.Key(), nil)
	kept := len(a.values)
	for _, t := range tags {
		if t.Value == "" {
			continue // the same as no tag
		}
		tag := tagOf{measurement, t.Key}
		have, err := a.known(tag)
		if err != nil {
			return "", err
		}
		h := maphash.String(a.seed, t.Value)
		if _, ok := have[h]; ok {
			continue
		}
		if len(have) >= a.maxValues {
			a.takeBackTo(kept)
			return fmt.Sprintf("max-values-per-tag limit exceeded (%d/%d): measurement=%q tag=%q value=%q",
				len(have), a.maxValues, measurement, t.Key, t.Value), nil
		}
		have[h] = struct{}{}
		a.values = append(a.values, newValue{tag, h})
	}
	return "", nil
}

// takeBack forgets the values of a batch that gets no series.
func (a *admission) takeBack() { a.takeBackTo(0) }

func (a *admission) takeBackTo(n int) {
	for _, v := range a.values[n:] {
		if delete(a.tags[v.tag], v.hash); len(a.tags[v.tag]) == 0 {
			delete(a.tags, v.tag) // of a tag that nothing else has
		}
	}
	a.values = a.values[:n]
}

// known returns the hashes of a tag's values, which are read at the first use.
func (a *admission) known(tag tagOf) (map[uint64]struct{}, error) {
	if have, ok := a.tags[tag]; ok {
		return have, nil
	}
	have := map[uint64]struct{}{}
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
			have[maphash.String(a.seed, value)] = struct{}{}
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
