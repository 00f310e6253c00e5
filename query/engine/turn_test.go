package engine

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/result"
)

// A query has two workers when writes begin. The one that ends must not keep the
// only turn that is left from the one that has work, nor from another query.
func TestWorkersGoOnWhileWritesDo(t *testing.T) {
	for name, run := range map[string]func(x *exec, task func(int) error) error{
		"parallel": func(x *exec, task func(int) error) error { return x.Parallel(2, task) },
		"slices": func(x *exec, task func(int) error) error {
			r := &levelRun{x: x}
			s := &stream{reader: &reader{r: r}, x: x, out: &seriesOut{r: r, left: -1}}
			return s.emit(2, func(i int) (map[int32]*rowset.Set, int64, error) { return nil, 0, task(i) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := admission.NewCores(2)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				turn := new(admission.Turn)
				workers, err := turn.Begin(ctx, c, 2)
				if workers != 2 || err != nil {
					t.Fatalf("%d workers, %v", workers, err)
				}
				x := newExec(ctx, nil, Options{Workers: workers, Turn: turn})
				var write func()
				ended := make(chan error, 1)
				go func() {
					err := run(x, func(i int) error {
						if i == 0 {
							return nil
						}
						write = c.Write()
						for range 3 {
							time.Sleep(time.Second)
							if err := x.Check(); err != nil {
								return err
							}
						}
						return nil
					})
					turn.End()
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
				checkFree(t, c, 2)
			})
		})
	}
}

// checkFree checks that nobody has one of the n turns of c.
func checkFree(t *testing.T, c *admission.Cores, n int) {
	t.Helper()
	time.Sleep(time.Minute) // the share of writes ends
	var turn admission.Turn
	if free, err := turn.Begin(context.Background(), c, n); free != n || err != nil {
		t.Errorf("%d of %d turns are free at the end, %v", free, n, err)
	}
	turn.End()
}

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
	run := func(shared *admission.Memory, emit func(*result.Result) error) error {
		stmt, err := influxql.ParseStatement("SELECT v FROM d.rp.m")
		if err != nil {
			t.Fatal(err)
		}
		return Select(context.Background(), stmt.(*influxql.SelectStatement), m,
			Options{Account: shared.Open(nil, nil)}, emit)
	}
	// What one needs.
	probe := admission.NewMemory(1 << 40)
	need := int64(0)
	if err := run(probe, func(*result.Result) error { need = probe.Used(); return nil }); err != nil {
		t.Fatal(err)
	}
	if need == 0 || probe.Used() != 0 {
		t.Fatalf("%d bytes at the end, %d afterwards", need, probe.Used())
	}
	shared := admission.NewMemory(need * 3 / 2)
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
