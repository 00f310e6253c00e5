package admission

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCoresLeaveRoomForWrites(t *testing.T) {
	for _, tt := range []struct{ cores, queries, besideWrites int }{
		{1, 1, 1}, {2, 2, 1}, {3, 3, 2}, {4, 4, 3}, {8, 8, 6}, {64, 64, 48},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := NewCores(tt.cores)
			check := func(what string, want int) {
				t.Helper()
				if got := c.limit(); got != want {
					t.Errorf("%d cores, %s: %d turns, want %d", tt.cores, what, got, want)
				}
			}
			check("at rest", tt.queries)
			one, two := c.Write(), c.Write()
			check("two writes", tt.besideWrites)
			one()
			time.Sleep(time.Hour)
			check("a long write", tt.besideWrites)
			two()
			check("right after a write", tt.besideWrites)
			time.Sleep(writeRest)
			check("later", tt.queries)
		})
	}
}

// enterAll starts n goroutines that enter one after another, and returns the
// channel that gets their numbers when they have their turns.
func enterAll(c *Cores, n int) chan int {
	entered := make(chan int, n)
	for i := range n {
		go func() {
			if err := c.enter(context.Background()); err == nil {
				entered <- i
			}
		}()
		synctest.Wait()
	}
	return entered
}

func drain(ch chan int) (got []int) {
	synctest.Wait()
	for len(ch) > 0 {
		got = append(got, <-ch)
	}
	return got
}

func TestCoresServeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(2)
		done := c.Write()
		entered := enterAll(c, 5)
		if got := drain(entered); !slices.Equal(got, []int{0}) {
			t.Fatalf("beside a write %v have turns, want the first", got)
		}
		c.leave()
		if got := drain(entered); !slices.Equal(got, []int{1}) {
			t.Fatalf("then %v", got)
		}
		done()
		time.Sleep(3 * writeRest) // nobody leaves: the clock admits
		if got := drain(entered); !slices.Equal(got, []int{2}) {
			t.Fatalf("after the write %v", got)
		}
		c.leave()
		c.leave()
		if got := drain(entered); len(got) != 2 {
			t.Fatalf("at the end %v", got)
		}
		c.leave()
		c.leave()
		if c.mu.working != 0 || c.mu.timer != nil && len(c.mu.waiting) > 0 {
			t.Errorf("%d turns are still given", c.mu.working)
		}
	})
}

func TestCoresGiveFreeTurnsToWorkers(t *testing.T) {
	c := NewCores(4)
	ctx := context.Background()
	var one, two Turn
	if workers, err := one.Begin(ctx, c, 3); workers != 3 || err != nil {
		t.Errorf("%d workers, %v, want 3", workers, err)
	}
	if got := one.More(2); got != 2 {
		t.Errorf("%d more turns, want 2", got)
	}
	if workers, err := two.Begin(ctx, c, 3); workers != 1 || err != nil {
		t.Errorf("%d workers of another query, %v, want 1", workers, err)
	}
	if got := two.More(2); got != 0 {
		t.Errorf("%d more turns of another query, want none", got)
	}
	one.Leave()
	if got := two.More(2); got != 1 {
		t.Errorf("%d more turns after one was given back, want 1", got)
	}
}

func TestCoresForgetWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(1)
		var holder Turn
		if _, err := holder.Begin(context.Background(), c, 1); err != nil {
			t.Fatal(err)
		}
		why := errors.New("killed")
		ctx, cancel := context.WithCancelCause(context.Background())
		failed := make(chan error)
		go func() {
			var late Turn
			_, err := late.Begin(ctx, c, 1)
			late.End()
			failed <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-failed; err != why {
			t.Errorf("error %v, want the cause", err)
		}
		holder.End()
		if c.mu.working != 0 || len(c.mu.waiting) != 0 {
			t.Errorf("%d working, %d waiting at the end", c.mu.working, len(c.mu.waiting))
		}
	})
}

func TestTurnYieldsToWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := NewCores(1), context.Background()
		var long Turn
		if _, err := long.Begin(ctx, c, 1); err != nil {
			t.Fatal(err)
		}
		entered := enterAll(c, 1)
		yielded := make(chan error, 2)
		if err := long.Yield(ctx); err != nil || len(drain(entered)) != 0 {
			t.Fatalf("a turn ended before its time: %v", err)
		}
		time.Sleep(turnTime)
		go func() { yielded <- long.Yield(ctx) }()
		if got := drain(entered); len(got) != 1 {
			t.Fatal("the waiting query got no turn")
		}
		if len(yielded) != 0 {
			t.Fatal("both have a turn on one core")
		}
		c.leave()
		if err := <-yielded; err != nil {
			t.Fatal(err)
		}
		// A context that ends while the query waits again leaves nothing behind.
		other := enterAll(c, 1)
		ending, cancel := context.WithCancel(ctx)
		time.Sleep(turnTime)
		go func() { yielded <- long.Yield(ending) }()
		if len(drain(other)) != 1 {
			t.Fatal("the waiting query got no turn")
		}
		cancel()
		if err := <-yielded; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		long.End()
		c.leave()
		if c.mu.working != 0 {
			t.Errorf("%d working at the end", c.mu.working)
		}
	})
}

// A query waits for the memory of an answer that nobody reads. Meanwhile others
// have its turn, and a query that ends while it waits leaves nothing charged.
func TestMemoryIsWaitedForOutsideTheTurn(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, m := NewCores(1), NewMemory(1000)
			var idle *Account
			idle = m.Open(func() time.Duration { return time.Hour }, func(error) {
				go func() {
					time.Sleep(time.Second)
					idle.Close()
				}()
			})
			if err := idle.SetAnswer(800); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			turn := new(Turn)
			if _, err := turn.Begin(ctx, c, 1); err != nil {
				t.Fatal(err)
			}
			account := m.Open(nil, nil)
			grown := make(chan error)
			go func() { grown <- account.set(ctx, turn, new(atomic.Int64), 500) }()
			other := enterAll(c, 1)
			if got := drain(other); len(got) != 1 {
				t.Error("another query waits with the one that waits for memory")
			}
			why := errors.New("killed")
			if killed {
				cancel(why)
			} else {
				go func() {
					time.Sleep(2 * time.Second)
					c.leave()
				}()
			}
			err := <-grown
			if want := int64(500); !killed && (err != nil || m.Used() != want) {
				t.Errorf("%v, %d bytes are charged, want %d", err, m.Used(), want)
			}
			if killed && (err != why || m.Used() != 0) {
				t.Errorf("killed: %v, %d bytes are charged", err, m.Used())
			}
		})
	}
}
