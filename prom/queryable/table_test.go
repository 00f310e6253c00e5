package queryable

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyMetrics finds each of the fields of one measurement, which have rows in
// several shards, by its own name.
func TestManyMetrics(t *testing.T) {
	const fields, week = 3 * manyMetrics, 7 * 24 * 3600 * 1000
	var points, want strings.Builder
	for i := range fields {
		name := fmt.Sprintf("f%03d", i)
		fmt.Fprintf(&points, "m %s=%d %d\n", name, i, i%2*week+10)
		fmt.Fprintf(&points, "m %s=%d %d\n", name, 1000+i, 2*week+10)
		fmt.Fprintf(&want, "{__name__=\"m_%s\"} %d@%d %d@%d\n", name, i, i%2*week+10, 1000+i, 2*week+10)
	}
	s, _ := newSource(t, ms(strings.TrimSpace(points.String())))
	got, err := selected(t, s, 0, 3*week, nil, `{__name__=~"m_f.+"}`)
	if err != nil || got != want.String() {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want.String())
	}
}

// TestTablesAreCharged charges what many measurements take before the samples of one of
// them are read.
func TestTablesAreCharged(t *testing.T) {
	const measurements = 1000
	var points strings.Builder
	for i := range measurements {
		fmt.Fprintf(&points, "m%d value=1 10\n", i)
	}
	s, l := newSource(t, ms(strings.TrimSpace(points.String())))
	f, err := s.Find(t.Context(), 0, 50, parse(t, `{__name__=~"m.+"}`))
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != measurements || l.held < measurements*(tableBytes+seriesBytes) {
		t.Errorf("%d series, %d bytes are charged", f.Len(), l.held)
	}
	f.Close()
}
