package backup

import (
	"sync"
	"time"
)

// Progress says how far a copy is.
type Progress struct {
	Objects, ObjectsDone int
	Bytes, BytesDone     int64
	Reused               int64 // bytes that were there already
}

// meter counts progress and reports it a few times a second.
type meter struct {
	mu     sync.Mutex
	p      Progress
	last   time.Time // of a report
	report func(Progress)
}

func (m *meter) add(f func(*Progress), last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.p)
	if m.report != nil && (last || time.Since(m.last) > 200*time.Millisecond) {
		m.last = time.Now()
		m.report(m.p)
	}
}

// Write counts bytes that are copied.
func (m *meter) Write(b []byte) (int, error) {
	m.add(func(p *Progress) { p.BytesDone += int64(len(b)) }, false)
	return len(b), nil
}
