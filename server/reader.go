package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/cold/reader"
	"tsdbd/config"
	"tsdbd/store"
)

// renewEvery is how often a reader looks for a newer state.
const renewEvery = 15 * time.Second

// A reader serves what a server has published in a cold store. Each state has a Server of
// its own, without listeners. The front has the listeners, and passes requests to the newest.
type front struct {
	*Server
	states *reader.Reader
	state  *reader.State
	store  store.Options

	mu struct {
		sync.RWMutex
		now    *Server
		busy   *sync.WaitGroup // requests of now
		failed error           // why there may be a newer state
	}
	retiring atomic.Int32 // servers of earlier states that answer requests
	retired  sync.WaitGroup
}

// ServeHTTP passes a request to the server of the newest state.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.RLock()
	now, busy := f.mu.now, f.mu.busy
	busy.Add(1)
	f.mu.RUnlock()
	defer busy.Done()
	now.handler.ServeHTTP(w, r)
}

// Drain implements listener.Handler.
func (f *front) Drain() {
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.mu.now.handler.Drain()
}

// runReader is Run for a reader.
func runReader(ctx context.Context, c *config.Config, o Options, heap int64, source string, hangup <-chan os.Signal) (err error) {
	f := &front{Server: newServer(ctx, c, o, heap, source)}
	defer func() {
		f.notify("STOPPING=1")
		err = errors.Join(err, f.Close())
	}()
	if err := f.open(ctx); err != nil {
		return err
	}
	f.notify("READY=1")
	timer := time.NewTicker(renewEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			f.log.Info("stopping", "err", context.Cause(ctx))
			return nil
		case <-hangup:
			f.log.Warn("a reader reads its settings when it starts")
		case <-f.listeners[0].Done():
			return nil // its failure comes from Close
		case <-timer.C:
			err := f.renew(ctx)
			if ctx.Err() != nil {
				continue
			}
			f.mu.Lock()
			before := f.mu.failed
			f.mu.failed = err
			f.mu.Unlock()
			if err != nil && before == nil {
				f.log.Error("newer state not opened, which is tried again; queries read the one from before", "err", err)
			} else if err == nil && before != nil {
				f.log.Info("states are opened again")
			}
		}
	}
}

// open opens the newest state and the listeners.
func (f *front) open(ctx context.Context) error {
	c := f.config
	f.log.Info("opening", "version", f.Version, "reader", c.Cold.Reader, "path", c.DataPath(), "memory", f.heap, "source", f.heapSource)
	var err error
	if f.tls, err = c.TLS.Parse(); err != nil {
		return err
	}
	if err := errors.Join(checkReaderDir(c), tryListen(c)); err != nil {
		return err
	}
	kept, err := f.openCold(&f.store)
	if err != nil {
		return err
	}
	f.states, err = reader.Open(reader.Options{
		Objects: kept.Objects, Body: f.store.Cold, Dir: filepath.ToSlash(filepath.Join(c.Data.Dir, "reader")), Logger: f.log,
	})
	if err != nil {
		return err
	}
	f.onClose(f.states.Close)
	if err := f.renew(ctx); err != nil {
		return err
	}
	f.onClose(func() error {
		f.retired.Wait()
		return f.mu.now.Close()
	})
	f.serves = f
	if err := f.openListeners(); err != nil {
		return err
	}
	fmt.Fprintf(f.Stdout, "tsdbd %s reads %s, and listens on %s\n", f.Version, c.Cold.Reader, f.URL())
	return nil
}

// renew opens the newest state, if it is another one than now. While requests still read the
// one before that, there is no third.
func (f *front) renew(ctx context.Context) error {
	if f.retiring.Load() > 0 {
		return nil
	}
	st, err := f.states.Fetch(ctx, f.state)
	if err != nil || st == f.state {
		return err
	}
	s := newServer(ctx, f.config, f.Options, f.heap, f.heapSource)
	s.front, s.tls, s.certificates = f, f.tls, f.certificates
	s.log.Info("opening what was published", "state", st.ID.String(), "created", st.Created())
	open := func() (err error) {
		s.store, err = f.states.Store(st, f.store)
		return err
	}
	for _, step := range []func() error{open, s.serveStore, s.openQueries, func() error { return s.openAPI(readerHealth{f, st}) }, s.openRecorder} {
		if err := step(); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	f.mu.Lock()
	old, busy := f.mu.now, f.mu.busy
	f.mu.now, f.mu.busy = s, new(sync.WaitGroup)
	f.mu.Unlock()
	f.state = st
	if old == nil {
		f.states.Clean(st)
		return nil
	}
	f.retiring.Add(1)
	f.retired.Go(func() {
		defer f.retiring.Add(-1)
		busy.Wait()
		if err := old.Close(); err != nil {
			f.log.Warn("state not closed", "err", err)
		}
		f.states.Clean(st)
	})
	return nil
}

// readerHealth is the health of a reader.
type readerHealth struct {
	front *front
	state *reader.State
}

// Health implements httpapi.Health.
func (h readerHealth) Health() (ok bool, message string) {
	h.front.mu.RLock()
	defer h.front.mu.RUnlock()
	text := fmt.Sprintf("reads %s as of %s", h.front.config.Cold.Reader, h.state.Created().Format(time.RFC3339))
	if h.front.mu.failed != nil {
		text += fmt.Sprintf("; whether that is the newest state is not known: %v", h.front.mu.failed)
	}
	return true, text
}

// Degraded implements httpapi.Health.
func (h readerHealth) Degraded() bool {
	h.front.mu.RLock()
	defer h.front.mu.RUnlock()
	return h.front.mu.failed != nil
}

// checkReaderDir refuses a directory with data of a server.
func checkReaderDir(c *config.Config) error {
	for _, pattern := range []string{"meta/*", "db-*"} {
		if found, err := filepath.Glob(filepath.Join(c.Data.Dir, filepath.FromSlash(pattern))); err == nil && len(found) > 0 {
			return fmt.Errorf("data.dir %s has the data of a server: a reader needs another directory, for what it keeps of the cold store", c.DataPath())
		}
	}
	return nil
}
