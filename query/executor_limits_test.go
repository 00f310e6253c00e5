package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// TestStuckClientHoldsNoTurn has a client that does not read its answer on the
// only core, and asks other queries meanwhile.
func TestStuckClientHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.NewCores(1)
		store := sampleStore(t)
		e := New(Options{Storage: store, Admin: store, Cores: c})
		read := make(chan struct{})
		stuck := make(chan error)
		go func() {
			turn := new(admission.Turn)
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
		var turn admission.Turn
		if _, err := turn.Begin(context.Background(), c, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestKillNeedsNoTurn ends a query that waits, by statements that run while
// every core is taken.
func TestKillNeedsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.NewCores(1)
		store := sampleStore(t)
		e := New(Options{Storage: store, Admin: store, Cores: c})
		if _, err := new(admission.Turn).Begin(context.Background(), c, 1); err != nil {
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
		if err := <-waiting; !errors.Is(err, admission.ErrQueryInterrupted) {
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

// The end of a query, whatever ends it, reaches a consumer that is blocked.
func TestInterrupt(t *testing.T) {
	for _, how := range []string{"kill", "timeout", "disconnect"} {
		t.Run(how, func(t *testing.T) {
			store := sampleStore(t)
			limits := admission.Limits{}
			if how == "timeout" {
				limits.QueryTimeout = 20 * time.Millisecond
			}
			e := New(Options{Storage: store, Admin: store, Limits: limits})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			q, err := syntax.Parse("SHOW SERIES; SHOW DATABASES", nil)
			if err != nil {
				t.Fatal(err)
			}
			interrupted := make(chan struct{})
			var got []string
			err = e.Execute(ctx, q, ExecuteOptions{Database: "db", Interrupt: func() { close(interrupted) }}, func(r *result.Result) error {
				if r.Err != nil {
					got = append(got, r.Err.Error())
					return nil
				}
				switch how {
				case "kill":
					if err := e.queries.Kill(1); err != nil {
						t.Error(err)
					}
				case "disconnect":
					cancel()
				}
				<-interrupted
				return fmt.Errorf("encode: %w", ErrStopped)
			})
			want := map[string]string{"kill": "query interrupted", "timeout": "query-timeout limit exceeded", "disconnect": "context canceled"}[how]
			if err != nil || !slices.Equal(got, []string{want, "not executed"}) {
				t.Errorf("%v, %q", err, got)
			}
		})
	}
}

// What a SHOW statement lists is charged to the query, and given back.
func TestShowIsCharged(t *testing.T) {
	store := scantest.New()
	mustOK(t, store.Apply(t.Context(), meta.CreateDatabase{Name: "db"}))
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "m%d,host=%s%d v=1 1000000000\n", i, strings.Repeat("h", 100), i)
		fmt.Fprintf(&lines, "m,host=%s%d v=1 1000000000\n", strings.Repeat("h", 100), i)
	}
	store.Write(t, "db", "", "s", lines.String())
	for _, q := range []string{"SHOW SERIES", "SHOW SERIES FROM m", "SHOW MEASUREMENTS", "SHOW TAG VALUES WITH KEY = host", "SHOW TAG VALUES FROM m WITH KEY = host", "SHOW TAG KEYS", "SHOW FIELD KEYS"} {
		memory := admission.NewMemory(1 << 30)
		for _, limit := range []int64{0, 100_000} {
			e := New(Options{Storage: store, Admin: store, Memory: memory, Limits: admission.Limits{MemoryBytes: limit}})
			parsed, err := syntax.Parse(q, nil)
			if err != nil {
				t.Fatal(err)
			}
			var failed error
			held := int64(0)
			err = e.Execute(t.Context(), parsed, ExecuteOptions{Database: "db"}, func(r *result.Result) error {
				failed = errors.Join(failed, r.Err)
				held = max(held, memory.Used())
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if limit == 0 && (failed != nil || held < 150_000) {
				t.Errorf("%s: %v, %d bytes are charged", q, failed, held)
			}
			if limit > 0 && !errors.Is(failed, admission.ErrMemory) {
				t.Errorf("%s in %d bytes: %v", q, limit, failed)
			}
			if memory.Used() != 0 {
				t.Errorf("%s: %d bytes are left", q, memory.Used())
			}
		}
	}
}
