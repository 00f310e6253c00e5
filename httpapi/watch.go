package httpapi

import (
	"sync"
	"sync/atomic"
)

// maxWatched bounds the clients that one watcher tells apart.
const maxWatched = 10_000

// watchers count the requests of each client while somebody wants to know.
type watchers struct {
	any atomic.Int32 // saves the lock while nobody does
	mu  struct {
		sync.Mutex
		all map[*watcher]struct{}
	}
}

// watcher is what one who watches has seen, by "user:address".
type watcher struct{ seen map[string]*clientRequests }

type clientRequests struct{ writes, queries int }

func (s *watchers) add() *watcher {
	w := &watcher{seen: map[string]*clientRequests{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.all == nil {
		s.mu.all = map[*watcher]struct{}{}
	}
	s.mu.all[w] = struct{}{}
	s.any.Add(1)
	return w
}

// remove ends a watch and returns what it saw.
func (s *watchers) remove(w *watcher) map[string]*clientRequests {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.all, w)
	s.any.Add(-1)
	return w.seen
}

// count counts a request that was let in.
func (s *watchers) count(r *request, write bool) {
	if s.any.Load() == 0 {
		return
	}
	name := r.userName() + ":" + clientAddress(r.Request)
	if name[0] == ':' {
		name = name[1:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.all {
		c := w.seen[name]
		if c == nil {
			if len(w.seen) >= maxWatched {
				continue
			}
			c = &clientRequests{}
			w.seen[name] = c
		}
		if write {
			c.writes++
		} else {
			c.queries++
		}
	}
}
