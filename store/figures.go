package store

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/store/figures"
)

// Figures returns what the store did since it was opened, and what it holds.
func (s *Store) Figures() figures.Figures {
	f := s.counters.Figures()
	f.State, f.Log, f.DiskFree = s.State(), s.log.Stats(), -1
	f.Compacting, f.CacheLimit = s.slots.Running(), s.opt.CacheBytes
	held, bytes := s.exemplars.Held()
	f.ExemplarsHeld, f.ExemplarBytes, f.SkippedIDs = int64(held), bytes, s.ledger.Skipped()
	if free, err := s.fs.Free(s.dir); err == nil {
		f.DiskFree = int64(free)
	}
	places := maps.Collect(s.Catalog().Shards())
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, e := range s.mu.shards {
		one := figures.Shard{ID: id, CacheBytes: e.Bytes()}
		if at, ok := places[id]; ok {
			one.Database, one.RetentionPolicy = at.Database.Name, at.Policy.Name
		}
		one.DiskBytes, one.Files = e.DiskBytes()
		one.Writes, one.Points = e.Applied()
		one.Rows = e.Rows()
		f.QueueFiles += int64(e.CompactionQueue(s.cold(e)))
		f.Shards = append(f.Shards, one)
	}
	slices.SortFunc(f.Shards, func(a, b figures.Shard) int { return cmp.Compare(a.ID, b.ID) })
	f.Databases = len(s.mu.databases)
	for _, db := range s.mu.databases {
		f.Series += int64(db.series.Len())
		f.TableBytes += db.table.Load().Bytes()
	}
	return f
}

// State returns whether the store takes writes, and what is wrong with it.
func (s *Store) State() figures.State {
	data := s.catalog.Data()
	st := figures.State{
		DiskFull: s.space.Full(), Trouble: s.space.Trouble(), Catalog: s.catalog.Err(), Hangs: s.log.Stats().Hangs,
	}
	for q, id := range s.quarantines() {
		for _, f := range q.List() {
			if !data.Accepted(id, f.ID) {
				st.Quarantined = append(st.Quarantined, f)
			}
		}
	}
	for _, d := range s.log.Damage() {
		if !data.Accepted(0, path.Base(d.Quarantine)) {
			st.LogDamage = append(st.LogDamage, d)
		}
	}
	if p := s.failure.Load(); p != nil {
		st.Failure = *p
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.mu.shards {
		st.Damaged = append(st.Damaged, e.Damaged()...)
		if e.tries.failures > 0 {
			st.FailingShards, st.Flush = st.FailingShards+1, e.tries.failed
		}
	}
	st.Unopened = s.mu.refused.Errors()
	st.Sort()
	return st
}

// Health reports whether the store takes writes, and why not.
func (s *Store) Health() (ok bool, message string) {
	return s.State().Health()
}

// Degraded reports whether damage makes queries fail.
func (s *Store) Degraded() bool {
	return s.State().Degraded()
}

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) { figures.Describe(ch) }

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	f := s.Figures()
	f.Collect(ch)
}
