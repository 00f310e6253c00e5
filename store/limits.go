package store

import (
	"cmp"
	"slices"

	"tsdbd/store/cardinality"
)

// SetLimits brings other limits into force. It waits for the writes under way;
// what is above a new limit stays.
func (s *Store) SetLimits(l Limits) {
	s.pacer.Rate.Store(l.CompactBytesPerSecond)
	s.gate.Lock()
	defer s.gate.Unlock()
	s.validateKeys = l.ValidateKeys
	next := boundsOf(l)
	if next == s.bounds {
		return
	}
	s.bounds = next
	s.forgetCardinality() // what was not counted is counted again
}

// boundsOf returns the bounds of each database.
func boundsOf(l Limits) cardinality.Bounds {
	return cardinality.Bounds{MaxSeries: l.MaxSeriesPerDatabase, MaxValues: l.MaxValuesPerTag, MaxFields: l.MaxFieldsPerMeasurement}
}

// forgetCardinality drops the counts of all databases. The gate is held.
func (s *Store) forgetCardinality() {
	for _, db := range s.allDatabases() {
		db.cardinality.Forget()
	}
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
