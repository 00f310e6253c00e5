package query

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// errMemory ends statements that need more memory than they may have.
var errMemory = errors.New("query memory limit exceeded")

// smallBytes is what a SELECT may hold however short memory is: reads of a few
// series go on.
const smallBytes = 4 << 20

// Memory bounds the intermediate data of all SELECTs together.
type Memory struct {
	limit atomic.Int64 // bytes
	used  atomic.Int64
	short atomic.Bool
}

// NewMemory returns an account of limit bytes.
func NewMemory(limit int64) *Memory {
	m := new(Memory)
	m.SetLimit(limit)
	return m
}

// SetLimit brings another bound into force, for SELECTs that need more from now on.
func (m *Memory) SetLimit(limit int64) { m.limit.Store(limit) }

// Used returns the bytes that running SELECTs hold.
func (m *Memory) Used() int64 { return m.used.Load() }

// SetShort says that the process is short of memory, whatever the account
// holds: until it is told otherwise, SELECTs that need more fail, but for small ones.
func (m *Memory) SetShort(short bool) { m.short.Store(short) }

// set charges one SELECT, which had *have bytes, with bytes. nil has no bound.
func (m *Memory) set(have *atomic.Int64, bytes int64) error {
	if m == nil {
		return nil
	}
	more := bytes - have.Swap(bytes)
	if total, limit := m.used.Add(more), m.limit.Load(); total > limit {
		return fmt.Errorf("%w: all queries together need more than %d bytes", errMemory, limit)
	}
	if more > 0 && bytes > smallBytes && m.short.Load() {
		return fmt.Errorf("%w: the server is short of memory, try again", errMemory)
	}
	return nil
}
