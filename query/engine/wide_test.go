package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsdbd/internal/proc"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// wideStore has a row of many fields.
func wideStore(t testing.TB, fields int) *scantest.Store {
	m := scantest.New()
	m.Stats = true
	m.Create("d", "autogen")
	var b strings.Builder
	b.WriteString("m,h=a ")
	for i := range fields {
		fmt.Fprintf(&b, "f%05d=%d,", i, i)
	}
	m.Write(t, "d", "", "s", strings.TrimSuffix(b.String(), ",")+" 7\n")
	return m
}

var wideQueries = []string{
	"SELECT * FROM m", "SELECT mean(*) FROM m", "SELECT max(*), count(/^f.*1/) FROM m WHERE time > 0 AND time < 9s GROUP BY time(1s)",
	"SELECT * FROM (SELECT * FROM m) WHERE f00001 > 0",
	"SELECT mean(*) FROM (SELECT last(*) FROM m GROUP BY h)",
}

// TestStopWide: a statement over a row of many fields looks at the context for each of
// them, before it reads and after, and ends when that has ended.
func TestStopWide(t *testing.T) {
	const fields = 400
	m := wideStore(t, fields)
	for _, q := range wideQueries {
		run := func(ctx context.Context) (results int, err error) {
			stmt, err := parseSelect(m, q)
			if err != nil {
				t.Fatal(err)
			}
			err = Select(ctx, stmt, m, Options{Workers: 1}, func(*result.Result) error { results++; return nil })
			return results, err
		}
		ctx := newLookContext(t, 0, 0)
		if results, err := run(ctx); err != nil || results != 1 {
			t.Fatalf("%s: %d results, %v", q, results, err)
		}
		looks := ctx.looks.Load()
		if looks < 2*fields {
			t.Errorf("%s: %d looks at the context for %d fields", q, looks, fields)
		}
		for part := range int64(16) {
			at := 1 + looks*part/16
			ctx := newLookContext(t, at, 0)
			results, err := run(ctx)
			if !errors.Is(err, context.Canceled) || results != 0 {
				t.Errorf("%s ended at look %d of %d: %v, %d results", q, at, looks, err, results)
			}
			if n := ctx.looks.Load() - at; n > 8 {
				t.Errorf("%s looked %d times more after its end", q, n)
			}
		}
	}
}

// TestWidePlanIsCharged: a wildcard over very many fields has a bound of memory.
func TestWidePlanIsCharged(t *testing.T) {
	m := wideStore(t, 2000)
	for _, q := range []string{
		"SELECT mean(*) FROM m", "SELECT " + strings.Repeat("max(*), ", 100) + "min(*) FROM m",
		"SELECT mean(*), max(*) FROM (SELECT mean(*), max(*) FROM m)",
	} {
		stmt, err := parseSelect(m, q)
		if err != nil {
			t.Fatal(err)
		}
		err = Select(t.Context(), stmt, m, Options{MemoryBytes: 2 << 20}, func(*result.Result) error { return nil })
		if !errors.Is(err, admission.ErrMemory) {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// BenchmarkWide reads a row: ns/field is about the same however many there are.
func BenchmarkWide(b *testing.B) {
	for _, q := range wideQueries {
		for _, fields := range []int{1000, 10000, 50000} {
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(q, " ", "_"), fields), func(b *testing.B) {
				m := wideStore(b, fields)
				stmt, err := parseSelect(m, q)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				begin := proc.CPUTime()
				for b.Loop() {
					if err := Select(b.Context(), stmt, m, Options{Workers: 1}, func(*result.Result) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(proc.CPUTime()-begin)/float64(b.N)/float64(fields), "cpu-ns/field")
			})
		}
	}
}
