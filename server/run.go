package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"tsdbd/cluster"
	"tsdbd/config"
	"tsdbd/server/memory"
	"tsdbd/store/figures"
)

// Run is the server as a process. It opens a node, serves until ctx ends, and
// closes the node. While it runs, it bounds the heap, notifies a supervisor of the
// state, and reloads the configuration at SIGHUP.
func Run(ctx context.Context, c *config.Config, o Options) (err error) {
	begin := time.Now()
	heap, source := memory.Limit() // once: afterwards it would find what is set here
	debug.SetMemoryLimit(heap)
	defer memory.TuneGC(heap)()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if c.Cold.Reader != "" {
		return runReader(ctx, c, o, heap, source, hangup)
	}
	for first := true; ; first = false {
		stop := keepWaiting(c)
		s, err := open(ctx, c, o, heap, source)
		stop()
		if err != nil {
			return err
		}
		s.log.Info("serving", "address", s.listeners[0].Addr(), "tls", c.HTTP.HTTPSEnabled, "auth", c.HTTP.AuthEnabled, "took", time.Since(begin))
		if first {
			s.welcome()
		}
		s.notify("READY=1")
		failed := s.serve(ctx, hangup)
		reopen := errors.Is(failed, cluster.ErrReopen)
		if reopen {
			s.log.Warn("the node is opened again", "err", failed)
			s.notify("STATUS=" + failed.Error())
			failed = nil
		} else {
			s.notify("STOPPING=1")
			defer s.exitAfter(time.Duration(c.HTTP.StopTimeout), s.diskHangs, os.Exit)()
		}
		err = errors.Join(failed, s.Close())
		if err != nil || !reopen || ctx.Err() != nil {
			return err
		}
		begin = time.Now()
	}
}

// lastMinute is how long, after the requests have had their time, a server may take to
// close: flushes begin for 20 s, and end at the pace of the disk.
const lastMinute = time.Minute

// exitAfter ends the process with exit unless stop is called within d, if the disk hangs
// then, and lastMinute later in any case. No acknowledged write is lost, as after a kill.
func (s *Server) exitAfter(d time.Duration, hangs func() bool, exit func(code int)) (stop func()) {
	hung := time.AfterFunc(d, func() {
		if hangs() {
			s.log.Error("the disk hangs, the process ends now; the next start reads the log back", "took", d)
			exit(1)
		}
	})
	last := time.AfterFunc(d+lastMinute, func() {
		s.log.Error("stopping takes too long, the process ends now; the next start reads the log back", "took", d+lastMinute)
		exit(1)
	})
	return func() { hung.Stop(); last.Stop() }
}

// diskHangs says that a write to the log does not end.
func (s *Server) diskHangs() bool {
	return s.store != nil && s.store.State().Hangs > figures.HangsAfter
}

// waitingEvery is the time between two messages to the supervisor of a node that
// waits, and waitingFor what each of them asks for.
const (
	waitingEvery = 10 * time.Second
	waitingFor   = time.Minute
)

// keepWaiting has the supervisor wait for a node of a cluster that waits for other nodes
// or copies the state of one, until stop is called.
func keepWaiting(c *config.Config) (stop func()) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" || c.Cluster.Node == "" {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(waitingEvery)
		defer ticker.Stop()
		for {
			// A message that does not arrive is not worth a word: the next one comes.
			_ = notify(socket, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", waitingFor.Microseconds()))
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

// serve returns when ctx ends, a listener fails, or the node cannot go on. The error is
// the node's.
func (s *Server) serve(ctx context.Context, hangup <-chan os.Signal) error {
	failed := s.listeners[len(s.listeners)-1].Done() // the socket's, or the only one's
	var restart <-chan error
	if s.node != nil {
		restart = s.node.Restart()
	}
	for {
		select {
		case <-ctx.Done():
			s.log.Info("stopping", "err", context.Cause(ctx))
			return nil
		case err := <-restart:
			return err
		case <-hangup:
			s.reload()
		case <-s.listeners[0].Done():
			return nil // its failure comes from Close
		case <-failed:
			return nil
		}
	}
}

// notify sends a state to the supervisor.
func (s *Server) notify(state string) {
	if err := notify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		s.log.Warn("supervisor not notified", "err", err)
	}
}

// welcome prints where the server and its page are, and what to type next if there is
// no data yet or no administrator.
func (s *Server) welcome() {
	url, catalog := s.URL(), s.store.Catalog()
	fmt.Fprintf(s.Stdout, "tsdbd %s listens on %s\n", s.Version, url)
	if s.config.HTTP.UIEnabled {
		fmt.Fprintf(s.Stdout, "Open %s/ in a browser, or type: tsdbd query -host %[1]s\n", url)
	}
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
