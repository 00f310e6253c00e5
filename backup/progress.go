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

// Write counts bytes that are copied.
func (m *meter) Write(b []byte) (int, error) {
	m.add(func(p *Progress) { p.BytesDone += int64(len(b)) }, false)
	return len(b), nil
}
