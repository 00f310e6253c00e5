package server

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"tsdbd/config"
	"tsdbd/server/memory"
)

// Run is the server as a process. It opens a node, serves until ctx ends, and
// closes the node. While it runs, it bounds the heap, notifies a supervisor of the
// state, and reloads the configuration at SIGHUP.
func Run(ctx context.Context, c *config.Config, o Options) (err error) {
	begin := time.Now()
	heap, _ := memory.Limit()
	debug.SetMemoryLimit(heap)
	defer memory.TuneGC(heap)()
	s, err := Open(c, o)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	s.log.Info("serving", "address", s.listeners[0].Addr(), "tls", c.HTTP.HTTPSEnabled, "auth", c.HTTP.AuthEnabled, "took", time.Since(begin))
	s.welcome()
	s.notify("READY=1")
	s.serve(ctx, hangup)
	s.notify("STOPPING=1")
	return s.Close()
}

// serve returns when ctx ends or a listener fails.
func (s *Server) serve(ctx context.Context, hangup <-chan os.Signal) {
	failed := s.listeners[len(s.listeners)-1].Done() // the socket's, or the only one's
	for {
		select {
		case <-ctx.Done():
			s.log.Info("stopping", "err", context.Cause(ctx))
			return
		case <-hangup:
			s.reload()
		case <-s.listeners[0].Done():
			return // its failure comes from Close
		case <-failed:
			return
		}
	}
}

// notify sends a state to the supervisor.
func (s *Server) notify(state string) {
	if err := notify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		s.log.Warn("supervisor not notified", "err", err)
	}
}

// welcome prints where the server is, and what to type next if there is no data
// yet or no administrator.
func (s *Server) welcome() {
	url, catalog := s.URL(), s.store.Catalog()
	fmt.Fprintf(s.Stdout, "tsdbd %s listens on %s\n", s.Version, url)
	switch {
	case s.config.HTTP.AuthEnabled && !catalog.AdminExists():
		fmt.Fprintf(s.Stdout, `Logins are on and there is no administrator yet. The first client can create one:

  curl -X POST '%s/query' --data-urlencode "q=CREATE USER admin WITH PASSWORD '...' WITH ALL PRIVILEGES"
`, url)
	case !s.config.HTTP.AuthEnabled && len(catalog.Databases) == 0:
		fmt.Fprintf(s.Stdout, `There is no data yet in %[2]s. In another terminal, try:

  curl -X POST '%[1]s/query' --data-urlencode 'q=CREATE DATABASE demo'
  curl -X POST '%[1]s/write?db=demo' --data-binary 'weather,city=oslo temperature=-3.5'
  curl -G '%[1]s/query' --data-urlencode 'db=demo' --data-urlencode 'q=SELECT * FROM weather'

Ctrl-C stops the server. tsdbd help lists the commands.
`, url, s.config.DataPath())
	}
}
