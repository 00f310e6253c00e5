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
	"tsdbd/query/result"
)

// TestMemoryIsShared holds one SELECT in the middle: another one that fits
// alone must not fit beside it, and fits again afterwards.
func TestMemoryIsShared(t *testing.T) {
	m := scantest.New()
	m.Create("d", "rp")
	var lines strings.Builder
	for i := range 1000 {
		lines.WriteString("m,h=a v=1 ")
		lines.WriteString(strings.Repeat("1", 1+i%9))
		lines.WriteString("\n")
	}
	m.Write(t, "d", "rp", "n", lines.String())
	run := func(shared *Memory, emit func(*result.Result) error) error {
		stmt, err := influxql.ParseStatement("SELECT v FROM d.rp.m")
		if err != nil {
			t.Fatal(err)
		}
		return runSelect(context.Background(), stmt.(*influxql.SelectStatement), m,
			SelectOptions{Database: "d", DefaultRP: defaultPolicy(m), Account: shared.Open(nil, nil)}, emit)
	}
	// What one needs.
	probe := NewMemory(1 << 40)
	need := int64(0)
	if err := run(probe, func(*result.Result) error { need = probe.Used(); return nil }); err != nil {
		t.Fatal(err)
	}
	if need == 0 || probe.Used() != 0 {
		t.Fatalf("%d bytes at the end, %d afterwards", need, probe.Used())
	}
	shared := NewMemory(need * 3 / 2)
	inside := 0
	err := run(shared, func(*result.Result) error {
		inside++
		err := run(shared, func(*result.Result) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "query memory limit exceeded: all queries together") {
			t.Errorf("beside another: %v", err)
		}
		return nil
	})
	if err != nil || inside == 0 {
		t.Fatalf("alone: %v", err)
	}
	if err := run(shared, func(*result.Result) error { return nil }); err != nil || shared.Used() != 0 {
		t.Errorf("afterwards: %v, %d bytes held", err, shared.Used())
	}
}

// TestMemoryShort lets a SELECT start and then tells it to take no more.
func TestMemoryShort(t *testing.T) {
	m := NewMemory(1 << 40)
	x := exec{opt: SelectOptions{MemoryBytes: -1, Account: m.Open(nil, nil)}}
	if err := x.grow(10); err != nil {
		t.Fatal(err)
	}
	m.SetShort(true)
	if err := x.grow(-5); err != nil {
		t.Errorf("giving back: %v", err)
	}
	if err := x.keep(10); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if err := x.keep(smallBytes); err == nil || !strings.Contains(err.Error(), "short of memory") {
		t.Errorf("taking more: %v", err)
	}
	m.SetShort(false)
	if err := x.grow(10); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	x.release()
	if m.Used() != 0 {
		t.Errorf("%d bytes left", m.Used())
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

// The end of a query, whatever ends it, reaches a consumer that is blocked.
func TestInterrupt(t *testing.T) {
	for _, how := range []string{"kill", "timeout", "disconnect"} {
		t.Run(how, func(t *testing.T) {
			store := sampleStore(t)
			limits := Limits{}
			if how == "timeout" {
				limits.QueryTimeout = 20 * time.Millisecond
			}
			e := New(Options{Storage: store, Admin: store, Limits: limits})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			q, err := Parse("SHOW SERIES; SHOW DATABASES", nil)
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
		memory := NewMemory(1 << 30)
		for _, limit := range []int64{0, 100_000} {
			e := New(Options{Storage: store, Admin: store, Memory: memory, Limits: Limits{MemoryBytes: limit}})
			parsed, err := Parse(q, nil)
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
			if limit > 0 && !errors.Is(failed, ErrMemory) {
				t.Errorf("%s in %d bytes: %v", q, limit, failed)
			}
			if memory.Used() != 0 {
				t.Errorf("%s: %d bytes are left", q, memory.Used())
			}
		}
	}
}
