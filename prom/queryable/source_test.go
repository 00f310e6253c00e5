package queryable

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/model/scan/scantest"
)

// newSource returns a source over points of line protocol. Their times are in
// nanoseconds. It charges ledger.
func newSource(t *testing.T, points string) (*Source, *ledger) {
	t.Helper()
	s := scantest.New()
	s.Create("p", "rp")
	s.Write(t, "p", "", "ns", points)
	l := &ledger{}
	t.Cleanup(func() {
		if n := s.Views(); n != 0 {
			t.Errorf("%d views are not released", n)
		}
		if l.held != 0 {
			t.Errorf("%d bytes are not given back", l.held)
		}
	})
	return &Source{Storage: s, DB: "p", Charge: l.charge}, l
}

// ledger adds up charges.
type ledger struct {
	held, peak int64
	calls      int
	refuse     int // the call that is refused; 0: none
}

var errRefused = fmt.Errorf("no memory")

func (l *ledger) charge(bytes int64) error {
	if bytes > 0 {
		if l.calls++; l.calls == l.refuse {
			return errRefused
		}
	}
	l.held += bytes
	l.peak = max(l.peak, l.held)
	return nil
}

func parse(t testing.TB, selector string) []*labels.Matcher {
	t.Helper()
	if selector == "" {
		return nil
	}
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return matchers
}

// selected returns the series that a selector finds from mint to maxt, one on a line.
func selected(t *testing.T, s *Source, mint, maxt int64, hints *storage.SelectHints, selector string) (string, error) {
	t.Helper()
	q, err := s.Querier(mint, maxt)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	return spell(q.Select(t.Context(), true, hints, parse(t, selector)...))
}

// spell writes a set of series as text.
func spell(set storage.SeriesSet) (string, error) {
	var out strings.Builder
	var it chunkenc.Iterator
	for set.Next() {
		fmt.Fprint(&out, set.At().Labels())
		it = set.At().Iterator(it)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			out.WriteByte(' ')
			switch kind {
			case chunkenc.ValHistogram:
				at, h := it.AtHistogram(nil)
				_, f := it.AtFloatHistogram(nil)
				if h.CounterResetHint != f.CounterResetHint || float64(h.Count) != f.Count || math.Float64bits(h.Sum) != math.Float64bits(f.Sum) {
					return "", fmt.Errorf("%v is %v with floats", h, f)
				}
				fmt.Fprintf(&out, "int %s hint %d@%d", sum(h.Sum), h.CounterResetHint, at)
			case chunkenc.ValFloatHistogram:
				at, h := it.AtFloatHistogram(nil)
				fmt.Fprintf(&out, "float %s hint %d@%d", sum(h.Sum), h.CounterResetHint, at)
			default:
				at, v := it.At()
				fmt.Fprintf(&out, "%v@%d", v, at)
			}
			if start := it.AtST(); start != 0 {
				fmt.Fprintf(&out, " since %d", start)
			}
		}
		if err := it.Err(); err != nil {
			return "", err
		}
		fmt.Fprintln(&out)
	}
	return out.String(), set.Err()
}

func sum(v float64) string {
	if value.IsStaleNaN(v) {
		return "stale"
	}
	return fmt.Sprint(v)
}
