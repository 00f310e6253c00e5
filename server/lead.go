package server

import (
	"context"
	"os"
	"sync"
	"time"

	"tsdbd/retention"
	"tsdbd/services/monitor"
)

// lead does what only one node may do, until ctx ends: it runs continuous queries,
// computes downsamples, writes the monitor's statistics, and drops what has expired. It returns when all of
// it has stopped. The store of a single node drops by itself.
func (s *Server) lead(ctx context.Context) {
	c := s.config
	var running sync.WaitGroup
	defer running.Wait()
	if c.Continuous.Enabled {
		running.Go(func() { s.continuous.Run(ctx) })
	}
	running.Go(func() { s.downsample.Run(ctx) })
	running.Go(func() {
		if err := s.store.RemoveStaged(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("rows that moves have staged are left until the next move or start", "err", err)
		}
	})
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
	if s.node != nil && c.Retention.Enabled {
		r := retention.Start(retention.Options{
			Store: s.store, CheckInterval: time.Duration(c.Retention.CheckInterval), Wait: time.Duration(c.Retention.WaitForDownsamples), Logger: s.log,
		})
		defer r.Close()
	}
	<-ctx.Done()
}

// leadership runs lead for as long as the node leads, never twice at a time.
type leadership struct {
	running sync.WaitGroup
	turn    chan struct{} // has one element while lead runs
	opened  chan struct{} // closed when all that lead needs is there
	closed  context.Context
	cancel  context.CancelFunc
}

func newLeadership() *leadership {
	l := &leadership{turn: make(chan struct{}, 1), opened: make(chan struct{})}
	l.closed, l.cancel = context.WithCancel(context.Background())
	return l
}

// begin runs lead until ctx ends, behind lead of the time before. It does not wait.
func (l *leadership) begin(ctx context.Context, lead func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.closed, cancel)
	l.running.Go(func() {
		defer stop()
		defer cancel()
		select {
		case <-l.opened:
		case <-ctx.Done():
			return
		}
		l.turn <- struct{}{}
		defer func() { <-l.turn }()
		if ctx.Err() == nil {
			lead(ctx)
		}
	})
}

// close ends lead and waits for it. The caller has made sure that no other begins.
func (l *leadership) close() {
	l.cancel()
	l.running.Wait()
}
