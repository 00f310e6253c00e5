package queryable

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/prom"

	"tsdbd/model"
)

func named(name string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, prom.NameLabel, name)}
}

// ms has the times of points in milliseconds.
func ms(points string) string {
	return strings.ReplaceAll(points+"\n", "\n", "000000\n")
}

func TestFind(t *testing.T) {
	s, l := newSource(t, ms("a,h=1 value=1 10\na,h=1 value=2,__start__=5i 20\na,h=2 value=3 15\na,h=3 value=4 12\na,h=3 value=5 99"))
	f, err := s.Find(t.Context(), 10, 50, named("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Order([]int32{2, 0, 1}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i := range f.Len() {
		times, values, err := f.Samples(i)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&out, f.Labels(i).Get("h"), times, values, " ")
	}
	if want := "3[12] [4] 1[10 20] [1 2] 2[15] [3] "; out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
	if f.Histograms() {
		t.Error("there are no histograms")
	}
	if l.held == 0 {
		t.Error("nothing was charged")
	}
	f.Close()
}

// TestFindHistograms says that a measurement has histograms, which Samples leaves out.
func TestFindHistograms(t *testing.T) {
	s, _ := newSource(t, ms("a,h=1 value=1 10\na,h=2 value=1,__histogram__=\"text\" 10"))
	f, err := s.Find(t.Context(), 0, 50, named("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.Histograms() {
		t.Error("the histogram is overlooked")
	}
}

// TestFirstSeries has several short series read at once, and a long one alone.
func TestFirstSeries(t *testing.T) {
	for _, c := range []struct {
		times model.TimeRange
		want  int
	}{
		{model.TimeRange{Min: 0, Max: 0}, 64},
		{model.TimeRange{Min: -1800e9, Max: 1800e9}, 18},
		{model.TimeRange{Min: 0, Max: 30 * 86400e9}, 1},
		{model.AllTime, 1},
	} {
		if got := firstSeries(c.times); got != c.want {
			t.Errorf("%v: %d series, want %d", c.times, got, c.want)
		}
	}
}

// TestKeptMemory: a query that gets the memory of an earlier one is charged for it, sees
// none of its samples, and gives everything back.
func TestKeptMemory(t *testing.T) {
	const rows = 500
	var points strings.Builder
	for i := range rows {
		fmt.Fprintf(&points, "a,h=1 value=%d %d\n", i, 10+i)
	}
	s, l := newSource(t, ms(points.String()+"b,h=1 value=7 20"))
	for _, name := range []string{"a", "a", "b", "a"} {
		f, err := s.Find(t.Context(), 10, 10+rows, named(name))
		if err != nil {
			t.Fatal(err)
		}
		before := l.held
		times, values, err := f.Samples(0)
		if err != nil {
			t.Fatal(err)
		}
		want, first := rows, 10
		if name == "b" {
			want, first = 1, 20
		}
		if len(times) != want || len(values) != want || times[0] != int64(first) {
			t.Errorf("%s: %d samples from %d on, want %d from %d on", name, len(times), times[0], want, first)
		}
		if more := l.held - before; more < int64(sampleBytes*want) {
			t.Errorf("%s: %d bytes are charged for %d samples", name, more, want)
		}
		if f.Close(); l.held != 0 {
			t.Errorf("%s: %d bytes are not given back", name, l.held)
		}
	}
}
