package queryable

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/model"
	"tsdbd/model/scan"
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
	l.held += bytes
	l.peak = max(l.peak, l.held)
	if bytes > 0 {
		if l.calls++; l.calls == l.refuse {
			return errRefused
		}
	}
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

// strictStorage has shards that nobody may ask for all measurements.
type strictStorage struct {
	*scantest.Store
	t *testing.T
}

func (s *strictStorage) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := s.Store.View(db, rp, r)
	return &strictView{v, s}, err
}

type strictView struct {
	scan.View
	storage *strictStorage
}

func (v *strictView) Shards() (all []scan.Shard) {
	for _, sh := range v.View.Shards() {
		all = append(all, &strictShard{sh, v.storage})
	}
	return all
}

type strictShard struct {
	scan.Shard
	storage *strictStorage
}

func (s *strictShard) Measurements() []string {
	s.storage.t.Error("all measurements were asked for")
	return s.Shard.Measurements()
}

// TestExactName looks names up and does not walk over the measurements.
func TestExactName(t *testing.T) {
	s, _ := newSource(t, points)
	s.Storage = &strictStorage{Store: s.Storage.(*scantest.Store), t: t}
	for _, selector := range []string{"cpu_idle", `{__name__=~"cpu_idle|cpu_none"}`, `{__name__="cpu_idle",__name__=~".+_idle"}`} {
		if got, err := selected(t, s, 0, 100, nil, selector); err != nil || strings.Count(got, "\n") != 2 {
			t.Errorf("%s: %v\n%s", selector, err, got)
		}
	}
}

// TestLosses fails over times with damage, and warns of it if the answer may be partial.
func TestLosses(t *testing.T) {
	s, _ := newSource(t, points)
	store := s.Storage.(*scantest.Store)
	for i := range 2 {
		store.Lost = append(store.Lost, scan.Loss{Range: model.TimeRange{Min: 0, Max: 1}, Path: fmt.Sprint(i)})
	}
	if _, err := s.Querier(0, 100); !errors.As(err, new(*scan.DamageError)) {
		t.Errorf("querier over damage: %v", err)
	}
	if _, err := s.Find(t.Context(), 0, 100, parse(t, "up")); !errors.As(err, new(*scan.DamageError)) {
		t.Errorf("find over damage: %v", err)
	}
	for mint, want := range map[int64]int{0: 2, 50: 0} {
		if want > 0 {
			s.Storage = store.Partial()
		} else {
			s.Storage = store
		}
		q, err := s.Querier(mint, 100)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		_, ofNames, err := q.LabelNames(t.Context(), nil)
		ofSeries := q.Select(t.Context(), false, nil).Warnings()
		if err != nil || len(ofSeries) != want || len(ofNames) != want {
			t.Errorf("from %d: %v, %d and %d warnings, want %d: %v", mint, err, len(ofSeries), len(ofNames), want, ofSeries)
		}
		f, err := s.Find(t.Context(), mint, 100, parse(t, "up"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(f.Warnings()); n != want {
			t.Errorf("from %d: %d warnings of Find, want %d", mint, n, want)
		}
		f.Close()
	}
}

// TestRead reports samples as often as they are read, and ends with the error.
func TestRead(t *testing.T) {
	s, _ := newSource(t, points)
	read := int64(0)
	s.Read = func(samples int64) error {
		read += samples
		return nil
	}
	if _, err := selected(t, s, 0, 100, nil, "up"); err != nil || read != 2 {
		t.Errorf("%d samples: %v", read, err)
	}
	s.Read = func(int64) error { return errRefused }
	if _, err := selected(t, s, 0, 100, nil, "up"); !errors.Is(err, errRefused) {
		t.Error(err)
	}
}

// TestColumns: the columns of the target of a downsample are the metrics of its source.
func TestColumns(t *testing.T) {
	s, _ := newSource(t, `up,job=a max_value=3,count_value=2i,first_value=1 60000000
cpu,host=a max_idle=9,count_idle=4i,count_value=1i 60000000
cpu,host=b max_idle=7,note=1 60000000
text,host=a count_value=2i,last_value="x",count___histogram__=3i,count___start__=1i 60000000
`)
	for _, c := range []struct{ columns, selector, want string }{
		{"max", "up", `{__name__="up", job="a"} 3@60`},
		{"count", "up", `{__name__="up", job="a"} 2@60`},
		{"last", "up", ""},
		{"max", "max_value", ""},
		{"max", "cpu_idle", `{__name__="cpu_idle", host="a"} 9@60` + "\n" + `{__name__="cpu_idle", host="b"} 7@60`},
		{"max", "cpu_note", ""},
		{"count", `{__name__=~"cpu.*"}`, `{__name__="cpu", host="a"} 1@60` + "\n" + `{__name__="cpu", host="b"}` + "\n" + `{__name__="cpu_idle", host="a"} 4@60` + "\n" + `{__name__="cpu_idle", host="b"}`},
		{"count", "text", ""}, // of texts and histograms
	} {
		s.Columns = strings.Fields(c.columns)
		got, err := selected(t, s, 0, 100, nil, c.selector)
		if got = strings.TrimSpace(got); err != nil || got != c.want {
			t.Errorf("%s of %s: %v\n%s\nwant\n%s", c.columns, c.selector, err, got, c.want)
		}
	}
	s.Columns = []string{"max", "count"}
	q, err := s.Querier(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	names, _, err := q.LabelValues(t.Context(), "__name__", nil)
	if got := strings.Join(names, " "); err != nil || got != "cpu cpu_idle up" {
		t.Errorf("names %s, %v", got, err)
	}
	got := ""
	err = s.Measurements(t.Context(), 0, 100, parse(t, "cpu_idle"), func(measurement string, fields []string) { got += fmt.Sprint(measurement, fields) })
	if err != nil || got != "cpu[idle]" {
		t.Errorf("measurements %s, %v", got, err)
	}
}
