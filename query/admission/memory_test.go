package admission

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A query that runs when memory gets short may give back, and take a little.
func TestMemoryShort(t *testing.T) {
	m := NewMemory(1 << 40)
	account := m.Open(nil, nil)
	var have atomic.Int64
	set := func(bytes int64) error { return account.set(t.Context(), nil, &have, bytes) }
	if err := set(10); err != nil {
		t.Fatal(err)
	}
	m.SetShort(true)
	if err := set(5); err != nil {
		t.Errorf("giving back: %v", err)
	}
	if err := set(15); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if err := set(smallBytes + 1); err == nil || !strings.Contains(err.Error(), "short of memory") {
		t.Errorf("taking more: %v", err)
	}
	m.SetShort(false)
	if err := set(smallBytes + 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := set(0); err != nil || m.Used() != 0 {
		t.Errorf("%v, %d bytes left", err, m.Used())
	}
}

// A query that needs memory gets that of an answer whose client does not read,
// of the one that has not read for the longest time, and of no other.
func TestMemoryOfStalledClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1000
		m := NewMemory(limit * spareParts / (spareParts - 1))
		var ended []int
		open := func(i int, since time.Time) *Account {
			var a *Account
			a = m.Open(func() time.Duration {
				if since.IsZero() {
					return 0
				}
				return time.Since(since)
			}, func(err error) {
				if !errors.Is(err, ErrClientStalled) {
					t.Error(err)
				}
				ended = append(ended, i)
				go func() {
					time.Sleep(20 * time.Millisecond)
					a.Close()
				}()
			})
			return a
		}
		begin := time.Now()
		reads := open(0, time.Time{})
		short := open(1, begin.Add(-time.Millisecond))
		long := open(2, begin.Add(-time.Hour))
		for _, a := range []*Account{reads, short, long} {
			if err := a.SetAnswer(300); err != nil {
				t.Fatal(err)
			}
		}
		other := m.Open(nil, nil)
		if err := other.SetAnswer(200); err != nil || !slices.Equal(ended, []int{2}) || m.Used() != 800 {
			t.Errorf("%v, %v ended, %d bytes held", err, ended, m.Used())
		}
		if took := time.Since(begin); took > stallGrace {
			t.Errorf("room after %v", took)
		}
		if err := other.SetAnswer(500); err != nil || !slices.Equal(ended, []int{2, 1}) {
			t.Errorf("%v, %v ended", err, ended)
		}
		if took := time.Since(begin); took < stallGrace {
			t.Errorf("a client that has not read for a moment was cut after %v", took)
		}
		// What is left reads, so there is no room and no reason to wait.
		before := time.Now()
		if err := other.SetAnswer(900); !errors.Is(err, ErrMemory) || time.Since(before) > 0 {
			t.Errorf("%v after %v", err, time.Since(before))
		}
		other.Close()
		reads.Close()
		if m.Used() != 0 {
			t.Errorf("%d bytes are left", m.Used())
		}
	})
}

// Large queries leave some memory to small ones.
func TestMemoryForSmallQueries(t *testing.T) {
	const limit = 1 << 20
	m := NewMemory(limit)
	large, small := m.Open(nil, nil), m.Open(nil, nil)
	if err := large.SetAnswer(limit * 7 / 8); err != nil {
		t.Fatal(err)
	}
	if err := small.SetAnswer(limit / smallParts); err != nil {
		t.Errorf("a small query: %v", err)
	}
	if err := small.SetAnswer(2 * limit / smallParts); !errors.Is(err, ErrMemory) {
		t.Errorf("no longer a small query: %v", err)
	}
	small.Close()
	if err := large.SetAnswer(limit*7/8 + 1); !errors.Is(err, ErrMemory) {
		t.Errorf("a larger query: %v", err)
	}
}
