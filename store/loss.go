package store

import (
	"path"
	"slices"
	"time"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/repair"
	"tsdbd/wal"
)

// Losses returns what damage has taken from the view's shards and from the log.
func (v *view) Losses() []scan.Loss {
	out := slices.Clone(*v.store.logLosses.Load())
	for _, sv := range v.held {
		out = append(out, sv.Losses()...)
	}
	return out
}

// quarantineCheck is how often the quarantine is looked at: an operator clears
// a loss by removing the files there.
const quarantineCheck = 2 * time.Second

// checkQuarantine notices what an operator has taken out of quarantine.
func (s *Store) checkQuarantine() {
	for _, q := range s.quarantines() {
		if len(q.List()) > 0 {
			if err := q.Read(); err != nil {
				s.logger.Warn("quarantine not read", "err", err)
			}
		}
	}
	if len(*s.logLosses.Load()) > 0 {
		s.listLogLosses()
	}
}

// quarantines returns those of the data directory, its databases, and shards.
func (s *Store) quarantines() []*repair.Quarantine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []*repair.Quarantine{s.quarantine}
	for _, e := range s.mu.shards {
		out = append(out, e.Quarantine())
	}
	for _, db := range s.mu.databases {
		out = append(out, db.quarantine)
	}
	return out
}

// listLogLosses reads which damaged spans of the log are in quarantine.
func (s *Store) listLogLosses() {
	names, err := wal.Lost(s.fs, path.Join(s.dir, "wal"))
	if err != nil {
		s.logger.Warn("quarantine of the log not read", "err", err)
		return
	}
	losses := []scan.Loss{}
	for _, name := range names {
		losses = append(losses, scan.Loss{Range: model.AllTime, Path: name})
	}
	s.logLosses.Store(&losses)
}
