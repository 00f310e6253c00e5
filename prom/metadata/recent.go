package metadata

import (
	"hash/maphash"
	"sync"
	"time"
)

// maxRecent bounds the entries that a Recent knows. They take 5 MiB at most.
const maxRecent = 1 << 17

// Recent knows which entries were written in this hour. It may forget one; then the
// entry is written again. The zero value is ready.
type Recent struct {
	mu struct {
		sync.Mutex
		hour  int64
		known map[uint64]struct{}
	}
	seed     maphash.Seed
	makeSeed sync.Once
}

// Fresh returns the entries that were not written in the hour of now to a retention
// policy of a database, each of them once. It keeps the order, and uses the memory of the slice.
func (r *Recent) Fresh(entries []Entry, database uint32, rp string, now time.Time) []Entry {
	fresh := entries[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	given := make(map[uint64]struct{})
	for i := range entries {
		key := r.key(&entries[i], database, rp)
		_, known := r.mu.known[key]
		if _, twice := given[key]; !known && !twice {
			given[key] = struct{}{}
			fresh = append(fresh, entries[i])
		}
	}
	return fresh
}

// Written remembers entries that are durable.
func (r *Recent) Written(entries []Entry, database uint32, rp string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	for i := range entries {
		if r.mu.known == nil || len(r.mu.known) == maxRecent {
			r.mu.known = make(map[uint64]struct{})
		}
		r.mu.known[r.key(&entries[i], database, rp)] = struct{}{}
	}
}

// turn forgets everything at the beginning of an hour.
func (r *Recent) turn(now time.Time) {
	if hour := now.Unix() / 3600; hour != r.mu.hour {
		r.mu.hour, r.mu.known = hour, nil
	}
}

// key returns the hash of an entry in a policy.
func (r *Recent) key(e *Entry, database uint32, rp string) uint64 {
	r.makeSeed.Do(func() { r.seed = maphash.MakeSeed() })
	return maphash.Comparable(r.seed, struct {
		Entry
		database uint32
		rp       string
	}{*e, database, rp})
}
