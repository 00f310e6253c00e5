package coldcache

import "sync"

// clock chooses which files go when there are too many: those that nobody has read since its
// hand was there last.
type clock struct {
	mu struct {
		sync.Mutex
		ring  []*entry
		hand  int
		bytes int64
	}
}

// size returns the bytes of all files.
func (k *clock) size() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.bytes
}

// add takes in the file of a range, and takes out others until they have at most limit bytes.
func (k *clock) add(e *entry, limit int64) (out []*entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.ring = append(k.mu.ring, e)
	e.slot = len(k.mu.ring) - 1
	k.mu.bytes += int64(e.size) + trailerBytes
	for k.mu.bytes > limit && len(k.mu.ring) > 1 {
		k.mu.hand %= len(k.mu.ring)
		victim := k.mu.ring[k.mu.hand]
		if victim == e || victim.used.Swap(false) {
			k.mu.hand++
			continue
		}
		// The last one, mostly e, takes its place. The hand goes past it, so that it is
		// looked at after all others.
		k.removeLocked(victim)
		k.mu.hand++
		out = append(out, victim)
	}
	return out
}

// remove takes out the file of a range, if it is there.
func (k *clock) remove(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.slot >= 0 {
		k.removeLocked(e)
	}
}

func (k *clock) removeLocked(e *entry) {
	last := len(k.mu.ring) - 1
	moved := k.mu.ring[last]
	k.mu.ring[e.slot], moved.slot = moved, e.slot
	k.mu.ring[last] = nil
	k.mu.ring = k.mu.ring[:last]
	e.slot = -1
	k.mu.bytes -= int64(e.size) + trailerBytes
}

// mappings bounds the files that are mapped. The one that was mapped first goes first.
type mappings struct {
	mu struct {
		sync.Mutex
		ring []*entry
		next int
	}
}

// add takes in a range whose file was mapped, and returns one whose file is to be unmapped,
// or nil.
func (m *mappings) add(e *entry) (out *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.ring) < maxMapped {
		m.mu.ring = append(m.mu.ring, e)
		return nil
	}
	out, m.mu.ring[m.mu.next] = m.mu.ring[m.mu.next], e
	m.mu.next = (m.mu.next + 1) % maxMapped
	return out
}
