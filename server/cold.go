package server

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tsdbd/cold"
	"tsdbd/cold/names"
	"tsdbd/internal/coldcache"
	"tsdbd/internal/vfs"
	"tsdbd/store"
	"tsdbd/tsm"
)

// coldParallel is how many requests to the cold store queries have at a time, at least.
const coldParallel = 8

// coldStore returns options of a service with the store that the settings name.
func (s *Server) coldStore() (*cold.Options, error) {
	where, err := s.config.Cold.Place()
	if err != nil {
		return nil, err
	}
	objects, err := where.Open(vfs.OS, s.config.Cold.S3())
	return &cold.Options{Objects: objects, Place: where}, err
}

// openCold opens the cold store that the settings name, and has the store read it. It
// returns what is known of a service that keeps it, nil if none is named.
func (s *Server) openCold(to *store.Options) (*cold.Options, error) {
	c := &s.config.Cold
	if c.URL == "" && c.Reader == "" {
		return nil, nil
	}
	o, err := s.coldStore()
	if err != nil {
		return nil, err
	}
	dir := c.CacheDir
	if dir == "" {
		dir = filepath.Join(s.config.Data.Dir, "cold-cache")
	}
	cache, err := coldcache.Open(coldcache.Options{
		Dir: filepath.ToSlash(dir), Size: int64(c.CacheSize), Store: o.Objects, Timeout: time.Duration(c.Timeout),
		Parallel: max(coldParallel, 2*runtime.GOMAXPROCS(0)), Logger: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.onClose(cache.Close)
	to.Cold = func(object string, size int64) tsm.Body { return cache.Object(names.Key(object), size) }
	o.Dir, o.Node = filepath.ToSlash(filepath.Join(s.config.Data.Dir, "cold")), "server"
	o.After, o.PurgeAfter, o.Grace, o.Rate = time.Duration(c.After), time.Duration(c.PurgeAfter), time.Duration(c.Grace), int64(c.UploadRate)
	o.Cache, o.Logger = cache.Stats, s.log
	return o, nil
}

// keepCold makes the service that keeps the cold store, once the store is open.
func (s *Server) keepCold(o *cold.Options) {
	if o == nil {
		return
	}
	o.Store, o.Waits, o.ID = s.store, s.store.Touched().Expirable, s.store.Catalog().Lineage.String()
	if s.node != nil {
		o.Leads = func() (uint64, bool) { return s.node.Term(), s.node.Leads() }
		o.ID, o.Node = s.node.Status().Cluster, s.config.Cluster.Node
	}
	s.cold = cold.New(*o)
	s.registry.MustRegister(s.cold)
}

// lookForCold counts the shards that cannot be read, because no cold store is set.
func (s *Server) lookForCold(ctx context.Context) {
	for id := range s.store.Catalog().Shards() {
		if ctx.Err() != nil {
			return
		}
		sh, release, err := s.store.OpenShard(id)
		if err != nil {
			continue // it has no points, or its damage is told
		}
		if sh.Cold().Bytes > 0 {
			s.unreadable.Add(1)
		}
		release()
	}
	if text := s.coldHealth(); text != "" {
		s.log.Warn(text)
	}
}

// coldHealth returns what /health says of the cold store, "" if all is well.
func (s *Server) coldHealth() string {
	if s.cold != nil {
		return s.cold.Health()
	}
	if n := s.unreadable.Load(); n > 0 {
		return fmt.Sprintf("%d shards have files in a cold store, but cold.url names none: what asks for their rows fails", n)
	}
	return ""
}

// runs runs a service until the server closes. It is not waited for any longer than the
// requests, because a read of the disk may hang.
func (s *Server) runs(name string, run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	s.onClose(quiet(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Duration(s.config.HTTP.StopTimeout)):
			s.log.Warn(name + " has not ended, a read of the disk hangs")
		}
	}))
}

// lags returns what /health says of work that is behind, "" if nothing is.
func (s *Server) lags() string {
	all := []string{s.downsample.Health(), s.coldHealth()}
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), "; ")
}
