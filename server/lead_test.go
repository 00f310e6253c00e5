package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeadership: lead runs once at a time, not before all is open, not for a time that
// is over, and not behind close.
func TestLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, text)
		}
		n := 0
		lead := func(ctx context.Context) {
			n++
			me := n
			note(fmt.Sprint("begin ", me))
			<-ctx.Done()
			time.Sleep(time.Second) // what it runs takes a moment to stop
			note(fmt.Sprint("end ", me))
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(log, want) {
				t.Errorf("%q, want %q", log, want)
			}
			log = nil
		}
		l := newLeadership()
		over, end := context.WithCancel(t.Context())
		l.begin(over, lead)
		end()
		first, endFirst := context.WithCancel(t.Context())
		l.begin(first, lead)
		expect()
		close(l.opened)
		expect("begin 1")
		endFirst()
		passing, endPassing := context.WithCancel(t.Context())
		l.begin(passing, lead)
		endPassing()
		l.begin(t.Context(), lead)
		expect()
		time.Sleep(2 * time.Second)
		expect("end 1", "begin 2")
		l.close()
		expect("end 2")
	})
}
