package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrMemory ends queries that need more memory than they may have.
var ErrMemory = errors.New("query memory limit exceeded")

// ErrClientStalled ends a query whose client does not read the answer while
// other queries need its memory.
var ErrClientStalled = errors.New("the client does not read the answer, and other queries need its memory")

// smallBytes is what a query may hold however short memory is: reads of a few
// series go on.
const smallBytes = 4 << 20

// A query that holds more than a 1/smallParts of a Memory leaves 1/spareParts of
// it to those that hold less, so that many large queries do not keep small ones
// from their answers.
const (
	smallParts = 64
	spareParts = 8
)

const (
	// stallGrace is how long a client may not read while other queries need the
	// memory of its answer.
	stallGrace = 500 * time.Millisecond
	// roomTime bounds how long a query waits for the memory of such answers.
	roomTime = 5 * time.Second
)

// Memory bounds the data of all queries together (W9).
type Memory struct {
	limit atomic.Int64 // bytes
	used  atomic.Int64
	short atomic.Bool
	mu    struct {
		sync.Mutex
		accounts map[*Account]struct{} // that may be ended
	}
}

// NewMemory returns a Memory of limit bytes.
func NewMemory(limit int64) *Memory {
	m := new(Memory)
	m.mu.accounts = map[*Account]struct{}{}
	m.SetLimit(limit)
	return m
}

// SetLimit brings another bound into force, for queries that need more from now on.
func (m *Memory) SetLimit(limit int64) { m.limit.Store(limit) }

// Used returns the bytes that running queries hold.
func (m *Memory) Used() int64 { return m.used.Load() }

// SetShort says that the process is short of memory, whatever the queries
// hold. While it is short, only small queries get more.
func (m *Memory) SetShort(short bool) { m.short.Store(short) }

// Large reports whether bytes are more than a small query holds.
func (m *Memory) Large(bytes int64) bool { return m != nil && bytes > smallBytes }

// Short reports whether the process is short of memory, and bytes are more than a
// small query holds.
func (m *Memory) Short(bytes int64) bool { return m.Large(bytes) && m.short.Load() }

// Account is what one query and its answer hold of a Memory. It is safe for
// concurrent use. A nil Account has no bound.
type Account struct {
	memory  *Memory
	held    atomic.Int64
	answer  atomic.Int64         // part of held: encoded, and not yet with the client
	waiting func() time.Duration // how long the client has not read; nil: there is no client
	end     func(error)
	ended   atomic.Bool
}

// Open returns an account, which the caller must close. While other queries
// need memory and waiting says that the client of this one does not read, end
// is called, with ErrClientStalled. Both may be nil. A nil Memory gives an
// account without a bound.
func (m *Memory) Open(waiting func() time.Duration, end func(error)) *Account {
	a := &Account{memory: m, waiting: waiting, end: end}
	if m != nil && waiting != nil && end != nil {
		m.mu.Lock()
		m.mu.accounts[a] = struct{}{}
		m.mu.Unlock()
	}
	return a
}

// Close gives everything back.
func (a *Account) Close() {
	if a == nil || a.memory == nil {
		return
	}
	// What is given back is known before nobody is seen to hold it.
	n := a.held.Load()
	a.memory.used.Add(-n)
	a.held.Add(-n)
	a.memory.mu.Lock()
	delete(a.memory.mu.accounts, a)
	a.memory.mu.Unlock()
}

// Hold charges the account with bytes until it is closed. An error says that they
// are too many.
func (a *Account) Hold(ctx context.Context, bytes int64) error {
	return a.set(ctx, nil, new(atomic.Int64), bytes)
}

// Waiting returns how long the client of the answer has not read.
func (a *Account) Waiting() time.Duration {
	if a == nil || a.waiting == nil {
		return 0
	}
	return a.waiting()
}

// SetAnswer says how many bytes of the encoded answer are held. An error says
// that they are too many. It may wait for memory: see Turn.Outside.
func (a *Account) SetAnswer(bytes int64) error {
	if a == nil {
		return nil
	}
	return a.set(context.Background(), nil, &a.answer, bytes)
}

// Set charges the account with bytes in place of *have. It waits for memory
// outside the turn.
func (a *Account) set(ctx context.Context, turn *Turn, have *atomic.Int64, bytes int64) error {
	if a == nil || a.memory == nil {
		return nil
	}
	more := bytes - have.Swap(bytes)
	m := a.memory
	if more <= 0 {
		m.used.Add(more)
		a.held.Add(more)
		return nil
	}
	held := a.held.Add(more)
	limit := m.limit.Load()
	room := limit
	if held > limit/smallParts {
		room -= limit / spareParts
	}
	err := error(nil)
	switch {
	case held > smallBytes && m.short.Load():
		err = fmt.Errorf("%w: the server is short of memory, try again", ErrMemory)
	case !m.Take(more, room):
		taken := false
		err = turn.Outside(ctx, func() error {
			if taken = m.makeRoom(a, more, room); taken {
				return nil
			}
			return cmp.Or(context.Cause(ctx), fmt.Errorf("%w: all queries together need more than %d bytes", ErrMemory, limit))
		})
		if taken && err != nil { // the query ended before it had its turn again
			m.used.Add(-more)
		}
	}
	if err != nil {
		have.Add(-more)
		a.held.Add(-more)
	}
	return err
}

// Take adds more bytes to what all hold if that is within room then.
func (m *Memory) Take(more, room int64) bool {
	for {
		used := m.used.Load()
		switch {
		case used+more > room:
			return false
		case m.used.CompareAndSwap(used, used+more):
			return true
		}
	}
}

// makeRoom takes more bytes once it has ended queries whose clients do not read.
// It returns false if that does not help.
func (m *Memory) makeRoom(a *Account, more, room int64) bool {
	for begin := time.Now(); !m.Take(more, room); {
		victim, waits, ending := m.slowest(a)
		switch {
		case victim == nil && !ending, a.ended.Load(), time.Since(begin) > roomTime:
			return false
		case !ending && waits > stallGrace:
			victim.ended.Store(true)
			victim.end(ErrClientStalled)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// slowest returns the account, other than a, whose client has not read for the
// longest time, and whether one that was ended still holds memory.
func (m *Memory) slowest(a *Account) (victim *Account, waits time.Duration, ending bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for b := range m.mu.accounts {
		if b == a || b.held.Load() == 0 {
			continue
		}
		if b.ended.Load() {
			ending = true
			continue
		}
		if w := b.Waiting(); w > waits {
			victim, waits = b, w
		}
	}
	return victim, waits, ending
}
