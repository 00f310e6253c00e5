package server

import (
	"context"
	"os"
	"sync"
	"time"

	"tsdbd/services/monitor"
)

// lead does what only one node may do, until ctx ends: it runs continuous queries and
// writes the monitor's statistics. It returns when all of it has stopped.
func (s *Server) lead(ctx context.Context) {
	c := s.config
	var running sync.WaitGroup
	defer running.Wait()
	if c.Continuous.Enabled {
		running.Go(func() { s.continuous.Run(ctx) })
	}
	if c.Monitor.StoreEnabled {
		host, err := os.Hostname()
		if err != nil {
			s.log.Warn("the monitor's points get no hostname", "err", err)
		}
		m := monitor.Start(monitor.Options{
			Writer: s.own, Statistics: s.executor.Statistics, Logger: s.log, Hostname: host,
			Database: c.Monitor.StoreDatabase, Interval: time.Duration(c.Monitor.StoreInterval),
		})
		defer m.Close()
	}
	<-ctx.Done()
}
