package unflushed

import "time"

// Shard is a shard that may be in a List.
type Shard interface {
	comparable
	// Failed reports whether its last flush failed, and when the next may be.
	Failed() (failed bool, retryAt time.Time)
	ManyMoves() bool // so many wait for a flush that it is due
	ActiveBytes() int64
	LastWrite() time.Time
}

// Marks say what is much.
type Marks[S any] struct {
	Bytes int64         // of one shard
	All   bool          // all caches together have much
	Idle  time.Duration // that a shard has no write
	// Log reports whether the log is too large and a flush of the shard that pins its oldest
	// entry would make it smaller.
	Log func(oldest S) bool
}

// Next chooses the shard to flush next, the one that pins the oldest entry first: one whose last
// flush failed, when its time has come; one with very many moves that wait for it; the largest
// if it or all together are large; the one that pins the oldest segment when the log
// is large; one without writes for a while. Otherwise it is the zero value.
func (l *List[S]) Next(m Marks[S]) S {
	now := time.Now()
	var none, moved, largest, oldest, idle S
	var bytes int64
	for s := range l.All() {
		failed, retryAt := s.Failed()
		if now.Before(retryAt) {
			continue
		}
		if failed {
			return s
		}
		if s.ManyMoves() {
			moved = s
		}
		if n := s.ActiveBytes(); largest == none || n > bytes {
			largest, bytes = s, n
		}
		if oldest == none {
			oldest = s
		}
		if now.Sub(s.LastWrite()) > m.Idle {
			idle = s
		}
	}
	switch {
	case moved != none:
		return moved
	case largest == none:
		return none
	case bytes > m.Bytes || m.All:
		return largest
	case m.Log(oldest):
		return oldest
	}
	return idle
}
