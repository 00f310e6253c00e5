package transport

// figures say what a Transport has now, and what has failed.
type figures struct {
	raft, http, handshakes          int
	failed, refused, evicted, stuck int64
}

func (t *Transport) figures() (f figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.mu.conns {
		if c.kind == Raft {
			f.raft++
		} else {
			f.http++
		}
	}
	t.halfOpen.mu.Lock()
	defer t.halfOpen.mu.Unlock()
	f.handshakes = len(t.halfOpen.mu.conns)
	f.failed, f.refused, f.evicted, f.stuck = t.failures.failed.Load(), t.failures.refused.Load(), t.failures.evicted.Load(), t.failures.stuck.Load()
	return f
}
