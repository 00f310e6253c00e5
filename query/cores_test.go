package query

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/query/result"

	"github.com/influxdata/influxql"
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
	if workers, err := one.begin(ctx, c, 3); workers != 3 || err != nil {
		t.Errorf("%d workers, %v, want 3", workers, err)
	}
	if got := one.more(2); got != 2 {
		t.Errorf("%d more turns, want 2", got)
	}
	if workers, err := two.begin(ctx, c, 3); workers != 1 || err != nil {
		t.Errorf("%d workers of another query, %v, want 1", workers, err)
	}
	if got := two.more(2); got != 0 {
		t.Errorf("%d more turns of another query, want none", got)
	}
	one.leave()
	if got := two.more(2); got != 1 {
		t.Errorf("%d more turns after one was given back, want 1", got)
	}
}

// A query has two workers when writes begin. The one that ends must not keep the
// only turn that is left from the one that has work, nor from another query.
func TestWorkersGoOnWhileWritesDo(t *testing.T) {
	for name, run := range map[string]func(x *exec, task func(int) error) error{
		"parallel": func(x *exec, task func(int) error) error { return x.parallel(2, task) },
		"slices": func(x *exec, task func(int) error) error {
			l := &level{x: x}
			s := &stream{reader: &reader{r: &levelRun{l: l}}, x: x, out: &seriesOut{l: l, left: -1}}
			return s.emit(2, func(i int) (map[int32]*rowset, int64, error) { return nil, 0, task(i) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewCores(2)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				turn := new(Turn)
				workers, err := turn.begin(ctx, c, 2)
				if workers != 2 || err != nil {
					t.Fatalf("%d workers, %v", workers, err)
				}
				x := newExec(ctx, nil, SelectOptions{Workers: workers, Turn: turn})
				var write func()
				ended := make(chan error, 1)
				go func() {
					err := run(x, func(i int) error {
						if i == 0 {
							return nil
						}
						write = c.Write()
						for range 3 {
							time.Sleep(turnTime)
							if err := x.check(); err != nil {
								return err
							}
						}
						return nil
					})
					turn.end()
					ended <- err
				}()
				time.Sleep(time.Minute)
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("the query waits for ever")
					cancel()
					<-ended
				}
				write()
				if c.mu.working != 0 {
					t.Errorf("%d working at the end", c.mu.working)
				}
			})
		})
	}
}

func TestCoresForgetWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(1)
		var holder Turn
		if _, err := holder.begin(context.Background(), c, 1); err != nil {
			t.Fatal(err)
		}
		why := errors.New("killed")
		ctx, cancel := context.WithCancelCause(context.Background())
		failed := make(chan error)
		go func() {
			var late Turn
			_, err := late.begin(ctx, c, 1)
			late.end()
			failed <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-failed; err != why {
			t.Errorf("error %v, want the cause", err)
		}
		holder.end()
		if c.mu.working != 0 || len(c.mu.waiting) != 0 {
			t.Errorf("%d working, %d waiting at the end", c.mu.working, len(c.mu.waiting))
		}
	})
}

func TestTurnYieldsToWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := NewCores(1), context.Background()
		var long Turn
		if _, err := long.begin(ctx, c, 1); err != nil {
			t.Fatal(err)
		}
		entered := enterAll(c, 1)
		yielded := make(chan error, 2)
		if err := long.yield(ctx); err != nil || len(drain(entered)) != 0 {
			t.Fatalf("a turn ended before its time: %v", err)
		}
		time.Sleep(turnTime)
		go func() { yielded <- long.yield(ctx) }()
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
		go func() { yielded <- long.yield(ending) }()
		if len(drain(other)) != 1 {
			t.Fatal("the waiting query got no turn")
		}
		cancel()
		if err := <-yielded; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		long.end()
		c.leave()
		if c.mu.working != 0 {
			t.Errorf("%d working at the end", c.mu.working)
		}
	})
}

// TestStuckClientHoldsNoTurn has a client that does not read its answer on the
// only core, and asks other queries meanwhile.
func TestStuckClientHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(1)
		store := sampleStore(t)
		e := New(Options{Storage: store, Admin: store, Cores: c})
		read := make(chan struct{})
		stuck := make(chan error)
		go func() {
			turn := new(Turn)
			stuck <- askText(t, e, "SHOW MEASUREMENTS ON db", ExecuteOptions{Turn: turn}, func(*result.Result) error {
				return turn.Outside(context.Background(), func() error { <-read; return nil })
			})
		}()
		synctest.Wait()
		if err := askText(t, e, "SHOW MEASUREMENTS ON db", ExecuteOptions{}, func(r *result.Result) error { return r.Err }); err != nil {
			t.Errorf("another query: %v", err)
		}
		close(read)
		if err := <-stuck; err != nil {
			t.Error(err)
		}
		if c.mu.working != 0 {
			t.Errorf("%d working at the end", c.mu.working)
		}
	})
}

// TestKillNeedsNoTurn ends a query that waits, by statements that run while
// every core is taken.
func TestKillNeedsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(1)
		store := sampleStore(t)
		e := New(Options{Storage: store, Admin: store, Cores: c})
		if err := c.enter(context.Background()); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error)
		go func() {
			var failed error
			err := askText(t, e, "SHOW MEASUREMENTS ON db", ExecuteOptions{}, func(r *result.Result) error { failed = r.Err; return nil })
			waiting <- errors.Join(err, failed)
		}()
		synctest.Wait()
		var id any
		err := askText(t, e, "SHOW QUERIES", ExecuteOptions{}, func(r *result.Result) error {
			id = r.Series[0].Values[0].Ints[0]
			return r.Err
		})
		if err != nil || id != int64(1) {
			t.Fatalf("SHOW QUERIES: id %v, %v", id, err)
		}
		if err := askText(t, e, "KILL QUERY 1", ExecuteOptions{}, func(r *result.Result) error { return r.Err }); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, ErrQueryInterrupted) {
			t.Errorf("the killed query: %v", err)
		}
	})
}

func askText(t *testing.T, e *Executor, text string, opt ExecuteOptions, emit func(*result.Result) error) error {
	t.Helper()
	q, err := influxql.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return e.Execute(context.Background(), q, opt, emit)
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
			if _, err := turn.begin(ctx, c, 1); err != nil {
				t.Fatal(err)
			}
			x := newExec(ctx, nil, SelectOptions{MemoryBytes: -1, Account: m.Open(nil, nil), Turn: turn})
			grown := make(chan error)
			go func() { grown <- x.grow(500) }()
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
