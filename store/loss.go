package store

import (
	"path"
	"slices"
	"time"

	"tsdbd/model"
	"tsdbd/model/scan"
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
	quarantines := []*quarantine{&s.quarantine}
	s.mu.RLock()
	var damaged []*shardEntry
	for _, e := range s.mu.shards {
		if len(e.Quarantine()) > 0 {
			damaged = append(damaged, e)
		}
	}
	for _, db := range s.mu.databases {
		quarantines = append(quarantines, &db.quarantine)
	}
	s.mu.RUnlock()
	for _, q := range quarantines {
		if len(q.list()) > 0 {
			if err := q.read(s.fs); err != nil {
				s.logger.Warn("quarantine not read", "path", q.dir, "err", err)
			}
		}
	}
	for _, e := range damaged {
		if err := e.ListQuarantine(); err != nil {
			s.logger.Warn("quarantine not read", "shard", e.ID(), "err", err)
		}
	}
	if len(*s.logLosses.Load()) > 0 {
		s.listLogLosses()
	}
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
