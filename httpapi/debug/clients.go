package debug

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxClients bounds the clients that one watcher tells apart.
const maxClients = 10_000

// Clients counts the requests of each client while somebody watches. The zero
// value is ready for use.
type Clients struct {
	watched atomic.Int32 // saves the lock while nobody watches
	mu      struct {
		sync.Mutex
		watchers []*watcher
	}
}

// watcher is what one who watches has seen, by client.
type watcher struct{ seen map[string]*requests }

type requests struct{ writes, queries int }

// Count counts a request that was let in. name returns who sent it.
func (c *Clients) Count(write bool, name func() string) {
	if c.watched.Load() == 0 {
		return
	}
	client := name()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.mu.watchers {
		n := w.seen[client]
		if n == nil {
			if len(w.seen) >= maxClients {
				continue
			}
			n = new(requests)
			w.seen[client] = n
		}
		if write {
			n.writes++
		} else {
			n.queries++
		}
	}
}

// Watch counts until the time is over or ctx ends, and returns the document of
// /debug/requests: an object with a line for each client.
func (c *Clients) Watch(ctx context.Context, wait time.Duration) []byte {
	w := &watcher{map[string]*requests{}}
	c.change(func(all []*watcher) []*watcher { return append(all, w) })
	_ = sleep(ctx, wait)
	c.change(func(all []*watcher) []*watcher {
		return slices.DeleteFunc(all, func(one *watcher) bool { return one == w })
	})
	b, comma := []byte("{"), ""
	for _, name := range slices.Sorted(maps.Keys(w.seen)) {
		key, _ := json.Marshal(name) // a text always encodes
		b = fmt.Appendf(b, "%s\n%s: {\"writes\":%d,\"queries\":%d}", comma, key, w.seen[name].writes, w.seen[name].queries)
		comma = ","
	}
	return append(b, "\n}\n"...)
}

func (c *Clients) change(f func([]*watcher) []*watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.watchers = f(c.mu.watchers)
	c.watched.Store(int32(len(c.mu.watchers)))
}

// sleep waits, or returns an error when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
