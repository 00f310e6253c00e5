package backup

import (
	"sync"
	"time"
)

// Progress tells how far a copy is.
type Progress struct {
	Objects, ObjectsDone int
	Bytes, BytesDone     int64
	Reused               int64 // bytes that were there already
}

// meter counts progress and tells of it a few times a second.
type meter struct {
	mu   sync.Mutex
	p    Progress
	told time.Time
	tell func(Progress)
}

func (m *meter) add(f func(*Progress), last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.p)
	if m.tell != nil && (last || time.Since(m.told) > 200*time.Millisecond) {
		m.told = time.Now()
		m.tell(m.p)
	}
}
