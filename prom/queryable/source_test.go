package queryable

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/model/scan/scantest"
)

// newSource returns a source over points of line protocol. Their times are in
// milliseconds.
func newSource(t *testing.T, points string) *Source {
	t.Helper()
	s := scantest.New()
	s.Create("p", "rp")
	s.Write(t, "p", "", "ms", points)
	t.Cleanup(func() {
		if n := s.Views(); n != 0 {
			t.Errorf("%d views are not released", n)
		}
	})
	return &Source{Storage: s, DB: "p"}
}

// selected returns the series that a selector finds from mint to maxt, one on a line.
func selected(t *testing.T, s *Source, mint, maxt int64, selector string) string {
	t.Helper()
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.Querier(mint, maxt)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), true, nil, matchers...)
	return samplesOf(t, set)
}

func samplesOf(t *testing.T, set storage.SeriesSet) string {
	t.Helper()
	var out strings.Builder
	var it chunkenc.Iterator
	for set.Next() {
		fmt.Fprint(&out, set.At().Labels())
		it = set.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
			at, v := it.At()
			fmt.Fprintf(&out, " %v@%d", v, at)
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out)
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSelect(t *testing.T) {
	const points = `cpu,host=a idle=1,user=2i 10
cpu,host=b idle=3,name="x" 20
cpu_idle,host=a value=5 10
cpu_idle,host=a value=6 15
up,__name__=up,job=j value=1 10`
	for _, c := range []struct{ selector, want string }{
		{`cpu_idle`, "{__name__=\"cpu_idle\", host=\"a\"} 5@10 6@15\n{__name__=\"cpu_idle\", host=\"b\"} 3@20\n"},
		{`{__name__=~"cpu_.*",host="a"}`, "{__name__=\"cpu_idle\", host=\"a\"} 5@10 6@15\n{__name__=\"cpu_user\", host=\"a\"} 2@10\n"},
		{`up`, "{__name__=\"up\", job=\"j\"} 1@10\n"},
		{`{job!=""}`, "{__name__=\"up\", job=\"j\"} 1@10\n"},
		{`cpu`, ""},
		{`cpu_name`, ""},
	} {
		if got := selected(t, newSource(t, points), 0, 100, c.selector); got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.selector, got, c.want)
		}
	}
}
