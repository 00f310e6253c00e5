package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom/stored"
	"tsdbd/query/admission"
	"tsdbd/query/downsample"
	"tsdbd/query/engine/plan"
	"tsdbd/query/window"
)

// windows says that the policy windows has all functions of the rows of raw, before a time.
type windows struct {
	every time.Duration
	end   int64
}

func (w windows) target() plan.Target {
	columns := []string{"first", "last", "count", "increase"}
	return plan.Target{Policy: "windows", Columns: columns, ColumnsOf: func(string) []string { return columns }, Windows: window.Windows{Every: int64(w.every)}, Series: true}
}

func (w windows) Default(string) string               { return "raw" }
func (w windows) Reach(string, string) (int64, int64) { return w.end, w.end }
func (w windows) Targets(_, policy string) []plan.Target {
	if policy != "raw" {
		return nil
	}
	return []plan.Target{w.target()}
}

func (w windows) Segments(ask *plan.Ask) ([]plan.Segment, []plan.Unused) {
	s := plan.Segment{Target: w.target(), TimeRange: model.TimeRange{Min: 0, Max: w.end - 1}}
	if ask.Refused != "" || ask.Fits(w.every) != "" {
		return nil, []plan.Unused{{Segment: s, Why: ask.Refused}}
	}
	return []plan.Segment{s}, nil
}

// points are the values of a query by their labels and times.
type points map[string]float64

func (p points) Begin(parser.ValueType) error { return nil }
func (p points) Sample(s *promql.Sample) error {
	p[fmt.Sprint(s.Metric, s.T)] = s.F
	return nil
}

func (p points) Series(s *promql.Series) error {
	for _, v := range s.Floats {
		p[fmt.Sprint(s.Metric, v.T)] = v.F
	}
	return nil
}
func (p points) Scalar(promql.Scalar) error { return nil }
func (p points) String(promql.String) error { return nil }

// windowsOfCounter returns the windows of samples in seconds as line protocol: first, last,
// count, and the sum of the steps between successive samples, of which each has its
// predecessor in the window or in the one before.
func windowsOfCounter(series string, times []int, values []float64, every int) string {
	var b strings.Builder
	for i := 0; i < len(times); {
		start := times[i] / every * every
		first, n, increase := i, 0, 0.
		for ; i < len(times) && times[i] < start+every; i++ {
			n++
			if i > 0 && times[i-1] >= start-every {
				if values[i] < values[i-1] {
					increase += values[i]
				} else {
					increase += values[i] - values[i-1]
				}
			}
		}
		fmt.Fprintf(&b, "%s first_value=%v,last_value=%v,count_value=%di,increase_value=%v %d\n", series, values[first], values[i-1], n, increase, start)
	}
	return b.String()
}

// TestSlopeOfWindows: rate, increase and delta of windows are those of the samples, if windows
// stand for all of the range and the samples are evenly spaced, so that they divide a window.
// Else they differ by what the extrapolation to the bounds of the range may be at most: 1.1
// gaps at each.
func TestSlopeOfWindows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 3))
	const every, lost, end = 600, 12 * 3600, 18 * 3600
	for round := range 6 {
		s := scantest.New()
		for _, policy := range []string{"raw", "shadow", "windows"} {
			s.Create("d", policy)
		}
		gap, exact := []int{20, 30, 60}[round%3], round < 3
		var raw, shadow, rows strings.Builder
		for i := range 4 {
			series := fmt.Sprintf("m_total,i=%d", i)
			var times []int
			var values []float64
			v := float64(1e6 + rnd.IntN(1000))
			for at := rnd.IntN(gap); at < end; at += gap {
				if !exact && rnd.IntN(400) == 0 {
					at += rnd.IntN(3 * every)
				}
				if v += rnd.Float64() * 10; rnd.IntN(200) == 0 {
					v = 5e5 * (1 + rnd.Float64()) // far from zero, where a counter begins
				}
				jitter := 0
				if !exact {
					jitter = rnd.IntN(gap)
				}
				times, values = append(times, at+jitter), append(values, v)
				line := fmt.Sprintf("%s value=%v %d\n", series, v, at+jitter)
				shadow.WriteString(line)
				if at+jitter >= lost {
					raw.WriteString(line)
				}
			}
			rows.WriteString(windowsOfCounter(series, times, values, every))
		}
		s.Write(t, "d", "raw", "s", raw.String())
		s.Write(t, "d", "shadow", "s", shadow.String())
		s.Write(t, "d", "windows", "s", rows.String())
		memory := admission.NewMemory(1 << 30)
		e := New(Options{
			Storage: s, Memory: memory, Queries: admission.NewQueries(admission.Limits{MemoryBytes: 1 << 28}, memory, slog.New(slog.DiscardHandler)),
			Unused: func() {},
			Downsamples: func(downsample.Use) stored.Downsamples {
				return windows{every: every * time.Second, end: lost * int64(time.Second)}
			},
		})
		run := func(policy, expr string, start, end, step int) points {
			out := points{}
			_, err := e.Run(t.Context(), &Request{
				Access: Access{DB: "d", RP: policy}, Expr: expr, Start: time.UnixMilli(int64(start)), End: time.UnixMilli(int64(end)), Step: time.Duration(step) * time.Millisecond,
			}, out)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		for range 20 {
			function, span := []string{"rate", "increase", "delta"}[rnd.IntN(3)], every*(1+rnd.IntN(20))
			step := 1000 * (1 + rnd.IntN(3*every))
			start := 1000 * rnd.IntN(end)
			last := start + step*rnd.IntN(15)
			got, want := run("raw", fmt.Sprintf("%s(m_total[%ds])", function, span), start, last, step), points{}
			bound := points{}
			for at := start; at <= last; at += step {
				as := at
				if at-1000*span+1 < 1000*lost {
					as = (at+1)/(1000*every)*1000*every - 1
				}
				counts := run("shadow", fmt.Sprintf("count_over_time(m_total[%ds])", span), as, as, 0)
				diffs := run("shadow", fmt.Sprintf("%s(m_total[%ds])", function, span), as, as, 0)
				for labels, v := range diffs {
					key := strings.TrimSuffix(labels, fmt.Sprint(as)) + fmt.Sprint(at)
					if want[key], bound[key] = v, 1e-9; as != at && (!exact || as < 1000*span-1 || as > 1000*lost) {
						bound[key] = 2.2/(counts[labels]-1) + 1e-9
					}
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%s of %d: %d values, want %d\n%v\n%v", function, span, len(got), len(want), got, want)
			}
			for _, key := range slices.Sorted(maps.Keys(want)) {
				if v, ok := got[key]; !ok || !(math.Abs(v-want[key]) <= bound[key]*math.Abs(want[key])+1e-9) {
					t.Fatalf("round %d: %s of %d at %s: %v, want %v within %v", round, function, span, key, v, want[key], bound[key])
				}
			}
		}
		if n := memory.Used(); n != 0 || s.Views() != 0 {
			t.Errorf("%d bytes and %d views are left", n, s.Views())
		}
	}
}

// TestStoredMemory: whatever is refused while windows are read, the query fails and gives all
// back.
func TestStoredMemory(t *testing.T) {
	s := scantest.New()
	for _, policy := range []string{"raw", "windows"} {
		s.Create("d", policy)
	}
	for i := range 40 {
		s.Write(t, "d", "windows", "s", fmt.Sprintf("m_total,i=%d first_value=1,last_value=%d,count_value=60i,increase_value=2 0\nm_total,i=%d first_value=1,last_value=3,count_value=60i,increase_value=2 600\n", i, i, i))
	}
	s.Write(t, "d", "raw", "s", "m_total,i=1 value=7 1300\n")
	failed, answered := 0, 0
	for limit := int64(1 << 8); limit < 1<<22; limit += limit / 4 {
		memory := admission.NewMemory(1 << 30)
		e := New(Options{
			Storage: s, Memory: memory, Queries: admission.NewQueries(admission.Limits{MemoryBytes: limit}, memory, slog.New(slog.DiscardHandler)),
			Unused: func() {},
			Downsamples: func(downsample.Use) stored.Downsamples {
				return windows{every: 600 * time.Second, end: 1200 * int64(time.Second)}
			},
		})
		for _, expr := range []string{"rate(m_total[20m])", "sum by (i) (last_over_time(m_total[10m]))", `label_replace(m_total, "a", "b", "", "")`, "m_total + on (i) m_total", "timestamp(m_total)"} {
			_, err := e.Run(t.Context(), &Request{
				Access: Access{DB: "d", RP: "raw"}, Expr: expr, Start: time.Unix(600, 0), End: time.Unix(1800, 0), Step: 10 * time.Minute,
			}, points{})
			switch {
			case err == nil:
				answered++
			case errors.Is(err, admission.ErrMemory):
				failed++
			default:
				t.Fatalf("%s with %d bytes: %v", expr, limit, err)
			}
			if n := memory.Used(); n != 0 || s.Views() != 0 {
				t.Fatalf("%s with %d bytes: %d bytes and %d views are left", expr, limit, n, s.Views())
			}
		}
	}
	if failed < 20 || answered < 20 {
		t.Errorf("%d failed, %d were answered", failed, answered)
	}
}
