package queryable

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"tsdbd/prom"
)

// histogramPoints returns one series of histograms, one a minute, and of floats.
func histogramPoints(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	minute := 0
	add := func(h *prom.Histogram, more string) {
		fmt.Fprintf(&out, "h %s=\"%s\"%s %d\n", prom.HistogramField, prom.AppendHistogram(nil, h), more, int64(minute)*60e9)
		minute++
	}
	of := func(hint histogram.CounterResetHint, counts ...int64) *prom.Histogram {
		h := &histogram.Histogram{CounterResetHint: hint, Sum: float64(counts[0]), PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: counts[:1]}
		h.Count = uint64(counts[0])
		return &prom.Histogram{Int: h}
	}
	stale := &prom.Histogram{Int: &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}}
	add(of(0, 1), "")
	add(of(0, 2), ",__start__=7i") // no reset
	add(of(0, 2), "")              // no reset
	add(of(0, 1), "")              // a reset
	add(stale, "")
	add(of(0, 5), "")                                                    // after a stale one
	add(of(histogram.CounterReset, 6), "")                               // a reset, it says
	add(of(histogram.GaugeType, 3), "")                                  // a gauge
	add(&prom.Histogram{Float: of(0, 9).Int.ToFloat(nil)}, "")           // of floats
	add(&prom.Histogram{Float: of(0, 10).Int.ToFloat(nil)}, "")          // no reset
	fmt.Fprintf(&out, "h value=8,__start__=9i %d\n", int64(minute)*60e9) // a float
	minute++
	add(&prom.Histogram{Float: of(0, 11).Int.ToFloat(nil)}, "") // after a float
	fmt.Fprintf(&out, "h %s=\"garbage\" %d\n", prom.HistogramField, int64(minute)*60e9)
	return out.String()
}

// TestHistograms reads the histograms from each minute on. The first one of an answer
// knows the one before it.
func TestHistograms(t *testing.T) {
	want := []string{
		"int 1 hint 0@0", "int 2 hint 2@60000 since 7", "int 2 hint 2@120000", "int 1 hint 0@180000", "int stale hint 0@240000",
		"int 5 hint 0@300000", "int 6 hint 0@360000", "int 3 hint 3@420000", "float 9 hint 0@480000", "float 10 hint 2@540000",
		"8@600000 since 9", "float 11 hint 0@660000",
	}
	for from := range want {
		s, _ := newSource(t, histogramPoints(t))
		got, err := selected(t, s, int64(from)*60_000, 1_000_000, nil, "h")
		if all := "{__name__=\"h\"} " + strings.Join(want[from:], " ") + "\n"; err != nil || got != all {
			t.Errorf("from minute %d: %v\n%swant:\n%s", from, err, got, all)
		}
	}
}

// TestHistogramsBetween reads histograms far from each other.
func TestHistogramsBetween(t *testing.T) {
	h := prom.AppendHistogram(nil, &prom.Histogram{Int: &histogram.Histogram{Count: 1, Sum: 1, ZeroCount: 1}})
	s, _ := newSource(t, fmt.Sprintf("h __histogram__=\"%s\" 0\nh __histogram__=\"%s\" %d\n", h, h, 3*chunkSpan))
	for _, c := range []struct {
		mint int64
		want string
	}{{0, "int 1 hint 0@0 int 1 hint 2@21600000"}, {chunkSpan/scale + 1, "int 1 hint 0@21600000"}} {
		got, err := selected(t, s, c.mint, 1<<40, nil, "h")
		if want := "{__name__=\"h\"} " + c.want + "\n"; err != nil || got != want {
			t.Errorf("from %d: %v\n%swant:\n%s", c.mint, err, got, want)
		}
	}
}

// TestHistogramsOfTwoMeasurements merges histograms and floats of one name.
func TestHistogramsOfTwoMeasurements(t *testing.T) {
	h := prom.AppendHistogram(nil, &prom.Histogram{Int: &histogram.Histogram{Count: 1, Sum: 1, ZeroCount: 1}})
	s, _ := newSource(t, fmt.Sprintf("a b=1 0\na b=2 1000000\na b=3 3000000\na_b __histogram__=\"%s\",__start__=5i 1000000\na_b __histogram__=\"%s\" 2000000\n", h, h))
	got, err := selected(t, s, 0, 10, nil, "a_b")
	if want := "{__name__=\"a_b\"} 1@0 int 1 hint 0@1 since 5 int 1 hint 2@2 3@3\n"; err != nil || got != want {
		t.Errorf("%v\n%swant:\n%s", err, got, want)
	}
}
