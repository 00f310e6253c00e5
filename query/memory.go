package query

import (
	"fmt"
	"sync/atomic"
)

// Memory bounds the intermediate data of all SELECTs together.
type Memory struct {
	limit int64 // bytes
	used  atomic.Int64
}

// NewMemory returns an account of limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Used returns the bytes that running SELECTs hold.
func (m *Memory) Used() int64 { return m.used.Load() }

// set charges one SELECT, which had *have bytes, with bytes. nil has no bound.
func (m *Memory) set(have *atomic.Int64, bytes int64) error {
	if m == nil {
		return nil
	}
	if total := m.used.Add(bytes - have.Swap(bytes)); total > m.limit {
		return fmt.Errorf("query memory limit exceeded: all queries together need more than %d bytes", m.limit)
	}
	return nil
}
