package queryable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/prom"
)

const points = `cpu,host=a idle=1,user=2i 10000000
cpu,host=b idle=3,name="x",up=true,n=7u 20000000
cpu_idle,host=a value=5 10000000
cpu_idle,host=a value=6 15000000
up,__name__=up,job=j value=1 10000000
up,job=j value=2 11000000
__metadata__,metric=up type="gauge" 10000000
`

func TestSelect(t *testing.T) {
	const (
		idleA = "{__name__=\"cpu_idle\", host=\"a\"} 5@10 6@15\n"
		idleB = "{__name__=\"cpu_idle\", host=\"b\"} 3@20\n"
		nB    = "{__name__=\"cpu_n\", host=\"b\"} 7@20\n"
		upB   = "{__name__=\"cpu_up\", host=\"b\"} 1@20\n"
		userA = "{__name__=\"cpu_user\", host=\"a\"} 2@10\n"
		up    = "{__name__=\"up\", job=\"j\"} 1@10 2@11\n"
		// A field that another series of the measurement has.
		empty = "{__name__=\"cpu_user\", host=\"b\"}\n"
	)
	for _, c := range []struct{ selector, want string }{
		{`cpu_idle`, idleA + idleB}, // measurements cpu and cpu_idle
		{`cpu_idle{host="b"}`, idleB},
		{`{__name__="cpu_idle",__name__!="cpu_idle"}`, ""},
		{`{__name__=~"cpu_idle|up"}`, idleA + idleB + up},
		{`{__name__=~"cpu_.*",host="b"}`, idleB + nB + upB + empty},
		{`{__name__=~"cpu_u.+",host="b"}`, upB + empty},
		{`{__name__=~"pu_idle"}`, ""},
		{`{__name__=~"cpu_i"}`, ""},
		{`{__name__!~"cpu_(n|up|user)",host=~".+"}`, idleA + idleB},
		{`{__name__!="cpu_idle",__name__!~"cpu_u.*",job="",host="b"}`, nB},
		{`{host=~"a|b",__name__="cpu_user"}`, userA + empty},
		{`{host!~"a|c",__name__="cpu_user"}`, empty},
		{`cpu_idle{host=~"[ac]"}`, idleA},
		{`cpu_idle{host=~"A"}`, ""},
		{`cpu_idle{host=~"(?i:A)"}`, idleA},
		{`cpu_idle{host!~".*"}`, ""},
		{`cpu_idle{host!~".+"}`, ""},
		{`cpu_idle{other=""}`, idleA + idleB},
		{`cpu_idle{other!~".+"}`, idleA + idleB},
		{`cpu_idle{other=~".*"}`, idleA + idleB},
		{`{job!=""}`, up},
		{`cpu`, ""},
		{`cpu_name`, ""},
		{`{metric="up"}`, ""},
		{`__metadata___type`, ""},
	} {
		s, _ := newSource(t, points)
		if got, err := selected(t, s, 0, 100, nil, c.selector); err != nil || got != c.want {
			t.Errorf("%s: %v\n%swant:\n%s", c.selector, err, got, c.want)
		}
	}
}

// TestSelectWhole matches whole values, and knows labels on both sides of __name__.
func TestSelectWhole(t *testing.T) {
	const found = "{Host=\"ab\", __name__=\"m\", z=\"1\"} 1@0\n"
	for selector, want := range map[string]string{
		`m{Host=~"a+"}`: "", `m{Host=~"b+"}`: "", `m{Host=~"[a]."}`: found, `m{Host!~"a+"}`: found, `m{Host!~"[ab]+"}`: "",
		`{__name__=~"m",z="1"}`: found,
	} {
		s, _ := newSource(t, "m,Host=ab,__name__=n,z=1 value=1 0")
		if got, err := selected(t, s, 0, 1, nil, selector); err != nil || got != want {
			t.Errorf("%s: %v %s, want %s", selector, err, got, want)
		}
	}
}

func TestSelectTimes(t *testing.T) {
	// A week has one shard, so these are in five.
	const points = `m value=1 -1814400000000001
m value=2 -2000001
m value=3 -1000001
m value=4 -1000000
m value=5 -1
m value=6 0
m value=7 999999
m value=8 1000000
m value=9 1814400000000000
`
	for _, c := range []struct {
		mint, maxt int64
		hints      *storage.SelectHints
		want       string
	}{
		{-1 << 62, 1 << 62, nil, " 1@-1814400001 2@-3 3@-2 5@-1 7@0 8@1 9@1814400000"},
		{-2, 0, nil, " 3@-2 5@-1 7@0"},
		{-9, 9, &storage.SelectHints{Start: -1, End: -1}, " 5@-1"},
		{1 << 61, 1 << 62, nil, ""},
		{-1 << 62, -1 << 61, nil, ""},
		{5, 4, nil, ""},
	} {
		s, _ := newSource(t, points)
		got, err := selected(t, s, c.mint, c.maxt, c.hints, "m")
		if got = strings.TrimPrefix(strings.TrimSuffix(got, "\n"), `{__name__="m"}`); err != nil || got != c.want {
			t.Errorf("from %d to %d: %v %s, want %s", c.mint, c.maxt, err, got, c.want)
		}
	}
}

// TestSelectSeries asks for series alone: those without samples are no series.
func TestSelectSeries(t *testing.T) {
	s, _ := newSource(t, points)
	for _, c := range []struct {
		start, end int64
		limit      int
		want       string
	}{
		{0, 100, 0, "cpu_idle a, cpu_idle b, cpu_n b, cpu_up b, cpu_user a, up "},
		{0, 100, 2, "cpu_idle a, cpu_idle b"},
		{0, 14, 0, "cpu_idle a, cpu_user a, up "},
		{11, 11, 0, "up "},
		{16, 19, 0, ""},
	} {
		q, err := s.Querier(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		set := q.Select(t.Context(), true, &storage.SelectHints{Start: c.start, End: c.end, Limit: c.limit, Func: "series"}, parse(t, `{__name__=~".+"}`)...)
		var got []string
		for set.Next() {
			got = append(got, set.At().Labels().Get(prom.NameLabel)+" "+set.At().Labels().Get("host"))
		}
		if err := errors.Join(set.Err(), q.Close()); err != nil || strings.Join(got, ", ") != c.want {
			t.Errorf("from %d to %d, %d: %v %q, want %q", c.start, c.end, c.limit, err, got, c.want)
		}
	}
}

// TestSelectSeriesOfShards asks for series in several shards, whose rows the times cover or
// not. A series comes once.
func TestSelectSeriesOfShards(t *testing.T) {
	const day = 86400 * 1000
	s, _ := newSource(t, `m,host=a value=1 10000000
m,host=b value=1 20000000
m,host=c note="no value" 10000000
sole,host=a value=1 10000000
sole,host=b value=1 20000000
m,host=a value=1 1728000010000000
sole,host=a value=1 1728000010000000
sole,host=d value=1 1728000010000000
`)
	for _, c := range []struct {
		start, end int64
		want       string
	}{
		{0, 30 * day, "m a, m b, sole a, sole b, sole d"},
		{10, 20 * day, "m a, m b, sole a, sole b"},
		{20, 30 * day, "m a, m b, sole a, sole b, sole d"},
		{21, 30 * day, "m a, sole a, sole d"},
		{0, 19, "m a, sole a"},
		{20*day + 11, 30 * day, ""},
	} {
		q, err := s.Querier(c.start, c.end)
		if err != nil {
			t.Fatal(err)
		}
		set := q.Select(t.Context(), true, &storage.SelectHints{Start: c.start, End: c.end, Func: "series"}, parse(t, `{__name__=~".+"}`)...)
		var got []string
		for set.Next() {
			got = append(got, set.At().Labels().Get(prom.NameLabel)+" "+set.At().Labels().Get("host"))
		}
		if err := errors.Join(set.Err(), q.Close()); err != nil || strings.Join(got, ", ") != c.want {
			t.Errorf("from %d to %d: %v %q, want %q", c.start, c.end, err, got, c.want)
		}
	}
}

// TestSelectRefused refuses each charge of a query. It must end with that error and
// hold nothing.
func TestSelectRefused(t *testing.T) {
	text := histogramPoints(t)
	for n := 1; ; n++ {
		s, l := newSource(t, points+text)
		l.refuse = n
		_, err := selected(t, s, 60_000, 1_000_000, nil, `{__name__=~".+"}`)
		if l.calls < n {
			if n < 10 || err != nil {
				t.Errorf("%d charges: %v", n, err)
			}
			return
		}
		if !errors.Is(err, errRefused) {
			t.Fatalf("charge %d was refused: %v", n, err)
		}
	}
}

func TestSelectContext(t *testing.T) {
	s, _ := newSource(t, points)
	q, err := s.Querier(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx, cancel := context.WithCancel(t.Context())
	matchers := parse(t, `{__name__=~".+"}`)
	set := q.Select(ctx, true, nil, matchers...)
	if !set.Next() {
		t.Fatal("no series")
	}
	cancel()
	if it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone || !errors.Is(it.Err(), context.Canceled) {
		t.Errorf("an iterator after the end of the context: %v", it.Err())
	}
	if set := q.Select(ctx, true, nil, matchers...); set.Next() || !errors.Is(set.Err(), context.Canceled) {
		t.Errorf("Select after the end of the context: %v", set.Err())
	}
	if _, _, err := q.LabelNames(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("LabelNames after the end of the context: %v", err)
	}
}

// TestClosed uses what a querier has given after it was closed.
func TestClosed(t *testing.T) {
	s, _ := newSource(t, points)
	q, err := s.Querier(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	set := q.Select(t.Context(), true, nil, parse(t, "up")...)
	if !set.Next() {
		t.Fatal("no series")
	}
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Fatal(err)
	}
	if it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone || !errors.Is(it.Err(), errClosed) {
		t.Errorf("an iterator: %v", it.Err())
	}
	if err := q.Select(t.Context(), true, nil).Err(); !errors.Is(err, errClosed) {
		t.Errorf("Select: %v", err)
	}
}

// TestBounds refuses selectors that would take too much.
func TestBounds(t *testing.T) {
	s, _ := newSource(t, points)
	for selector, want := range map[string]string{
		`{` + strings.Repeat(`a!="b",`, maxMatchers+1) + `}`:                   "too many matchers",
		`{` + strings.Repeat(`a=~"((x{100}){10})*y",`, 500) + `__name__="up"}`: "regular expressions are too large",
	} {
		if _, err := selected(t, s, 0, 100, nil, selector); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", selector, err)
		}
	}
}

// TestBatches reads many series with one iterator: memory holds some of them, an
// iterator allocates nothing for a sample, and each series can be read again.
func TestBatches(t *testing.T) {
	var text strings.Builder
	for i := range 4000 {
		for at := range 9 {
			fmt.Fprintf(&text, "m,host=%04d value=%d %d\n", i, i, at*1_000_000)
		}
	}
	s, l := newSource(t, text.String())
	q, err := s.Querier(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), true, nil, parse(t, "m")...)
	before := l.held
	var all []storage.Series
	var it chunkenc.Iterator
	for set.Next() {
		all = append(all, set.At())
		it = set.At().Iterator(it)
		n := 0
		for ; it.Next() == chunkenc.ValFloat; n++ {
			if at, v := it.At(); at != int64(n) || v != float64(len(all)-1) {
				t.Fatalf("series %d has %v at %d", len(all)-1, v, at)
			}
		}
		if n != 9 {
			t.Fatalf("series %d has %d samples", len(all)-1, n)
		}
	}
	if got, total := l.peak-before, int64(len(all)*9*sampleBytes); len(all) != 4000 || got > total/2 {
		t.Errorf("%d bytes for samples at a time, of %d in %d series", got, total, len(all))
	}
	for _, i := range []int{999, 0, 500, 501, 3} {
		if it = all[i].Iterator(it); it.Seek(5) != chunkenc.ValFloat || it.AtT() != 5 {
			t.Fatalf("series %d again: %v", i, it.Err())
		}
		if _, v := it.At(); v != float64(i) {
			t.Errorf("series %d again has %v", i, v)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		it = all[3].Iterator(it)
		for it.Next() != chunkenc.ValNone {
			_, _ = it.At()
		}
	}); n != 0 {
		t.Errorf("%v allocations to walk over a series", n)
	}
}

// TestKeptIterators keeps all iterators of a selection, as timestamp() does.
func TestKeptIterators(t *testing.T) {
	batches = sync.Pool{} // a batch of another test has more memory than these series take
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "m,host=%02d value=%d 0\nm,host=%02d value=%d 1000000\n", i, i, i, -i)
	}
	s, l := newSource(t, text.String())
	q, err := s.Querier(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), true, nil, parse(t, "m")...)
	labelBytes := l.held
	var all []chunkenc.Iterator
	for set.Next() {
		all = append(all, set.At().Iterator(nil))
	}
	for step, sign := range []float64{1, -1} {
		for i, it := range all {
			if it.Seek(int64(step)) != chunkenc.ValFloat {
				t.Fatal(it.Err())
			}
			if at, v := it.At(); at != int64(step) || v != sign*float64(i) {
				t.Fatalf("iterator %d is at %d with %v", i, at, v)
			}
		}
	}
	// Those that go to another series give the memory of theirs back.
	kept := l.held - labelBytes
	other := q.Select(t.Context(), true, nil, parse(t, "m")...)
	if !other.Next() {
		t.Fatal("no series")
	}
	for _, it := range all {
		other.At().Iterator(it)
	}
	if left := l.held - 2*labelBytes; left > kept/2 {
		t.Errorf("%d bytes of %d are not given back", left, kept)
	}
}

// TestSelectMatchesOracle compares selectors over random points with a map.
func TestSelectMatchesOracle(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	measurements, fields := []string{"a", "a_b", "a_b_value", "c"}, []string{"value", "b", "b_value", "_b"}
	for range 100 {
		type key struct{ name, host, job string }
		oracle := map[key]map[int64][2]float64{} // length of the measurement and value
		var text strings.Builder
		for i := range 1 + r.IntN(60) {
			m, f, at := measurements[r.IntN(4)], fields[r.IntN(4)], r.Int64N(40)-20
			k := key{name: m + "_" + f, host: string(rune('x' + r.IntN(3)))}
			if f == "value" {
				k.name = m
			}
			tags := ",host=" + k.host
			if r.IntN(2) == 0 {
				k.job = "j"
				tags += ",job=j"
			}
			fmt.Fprintf(&text, "%s%s %s=%d %d\n", m, tags, f, i, at*1_000_000)
			if oracle[k] == nil {
				oracle[k] = map[int64][2]float64{}
			}
			if old, ok := oracle[k][at]; !ok || old[0] <= float64(len(m)) {
				oracle[k][at] = [2]float64{float64(len(m)), float64(i)}
			}
		}
		s, _ := newSource(t, text.String())
		for _, selector := range []string{`a`, `a_b`, `a_b_value`, `c__b`, `{__name__=~"a.*"}`, `{__name__!="a",host="x"}`, `{host!~"x|y",job=""}`, `{job="j"}`} {
			mint := r.Int64N(40) - 20
			maxt := mint + r.Int64N(20)
			if r.IntN(4) == 0 { // all
				mint, maxt = -20, 20
			}
			var want, wantLabels []string
			for k, samples := range oracle {
				ls := labels.FromStrings(prom.NameLabel, k.name, "host", k.host)
				if k.job != "" {
					ls = labels.FromStrings(prom.NameLabel, k.name, "host", k.host, "job", k.job)
				}
				if slices.ContainsFunc(parse(t, selector), func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) }) {
					continue
				}
				line := ""
				for at := mint; at <= maxt; at++ {
					if v, ok := samples[at]; ok {
						line += fmt.Sprintf(" %v@%d", v[1], at)
					}
				}
				if line != "" {
					want, wantLabels = append(want, ls.String()+line), append(wantLabels, ls.String())
				}
			}
			slices.Sort(want)
			text, err := selected(t, s, mint, maxt, nil, selector)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(text) {
				if line = strings.TrimSuffix(line, "\n"); !strings.HasSuffix(line, "}") {
					got = append(got, line)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s from %d to %d:\n%s\nwant:\n%s", seed, selector, mint, maxt, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			slices.Sort(wantLabels)
			text, err = selected(t, s, mint, maxt, &storage.SelectHints{Start: mint, End: maxt, Func: "series"}, selector)
			got = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if slices.Sort(got); err != nil || strings.Join(got, "\n") != strings.Join(wantLabels, "\n") {
				t.Fatalf("seed %d: series of %s from %d to %d: %v\n%s\nwant:\n%s", seed, selector, mint, maxt, err, strings.Join(got, "\n"), strings.Join(wantLabels, "\n"))
			}
		}
	}
}
