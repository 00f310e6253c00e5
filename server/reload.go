package server

import (
	"context"
	"log/slog"
	"strings"
)

// reload reads the configuration and the certificates again. It logs the keys that
// changed, and those that need a restart.
func (s *Server) reload() {
	next, _, err := s.Reload()
	if err != nil {
		// The file may be half written; nothing is changed.
		s.log.Error("configuration not reloaded", "err", err)
		return
	}
	var done, waiting []string
	for _, c := range s.config.Update(next) {
		if !c.Applied {
			waiting = append(waiting, c.Key)
			continue
		}
		done = append(done, c.Key)
		s.log.Info("setting changed", "key", c.Key, "was", c.Was, "is", c.Is)
	}
	s.level.Set(slog.Level(s.config.Log.Level))
	s.setLimits()
	if s.accessLog != nil {
		if err := s.accessLog.reopen(); err != nil {
			s.log.Error("access log not opened again, the old file is written to", "err", err)
		}
	}
	done = append(done, s.certificates.reload()...)
	list := func(keys []string) string {
		if len(keys) == 0 {
			return "nothing"
		}
		return strings.Join(keys, ", ")
	}
	// The sender of the signal must see an answer at any level.
	s.log.Log(context.Background(), max(slog.LevelInfo, s.level.Level()), "configuration reloaded", "changed", list(done), "at_restart", list(waiting))
}

// setLimits brings the limits of the configuration into force.
func (s *Server) setLimits() {
	s.showConfig()
	s.store.SetLimits(storeLimits(s.config))
	s.executor.SetLimits(queryLimits(s.config))
	s.promql.SetLimits(promqlLimits(s.config))
	s.memory.SetLimit(int64(s.config.Query.MaxTotalMemory))
	s.handler.SetLimits(httpLimits(s.config))
	s.passing.SetLimit(int64(s.config.HTTP.MaxBodyMemory))
}
