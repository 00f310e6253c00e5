package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// partsStore has measurements in two shards, every third in the first alone. Few have
// a second series and a field more.
func partsStore(t testing.TB, measurements int) *scantest.Store {
	m := scantest.New()
	m.Create("d", "autogen")
	var b strings.Builder
	for i := range measurements {
		fmt.Fprintf(&b, "m%02d,h=a v=%d %d\n", i, i, i)
		if i%3 > 0 {
			fmt.Fprintf(&b, "m%02d,h=a v=%d %d\n", i, 2*i, 20*86400+i)
		}
		if i%10 == 0 {
			fmt.Fprintf(&b, "m%02d,h=b v=%d,w=%d %d\n", i, 3*i, i, i)
		}
	}
	m.Write(t, "d", "", "s", b.String())
	return m
}

// TestParts: a level reads very many measurements in parts, whose answers are one
// behind the other those of all at once.
func TestParts(t *testing.T) {
	const n = 43
	m := partsStore(t, n)
	for _, q := range []string{
		"SELECT * FROM SOURCE", "SELECT v FROM SOURCE ORDER BY time DESC LIMIT 1", "SELECT v + w FROM SOURCE WHERE h = 'b'",
		"SELECT mean(v) FROM SOURCE GROUP BY *", "SELECT count(v), last(w) FROM SOURCE WHERE time > 0 AND time < 9d GROUP BY time(1d), h fill(0) LIMIT 3",
		"SELECT first(v), h FROM SOURCE GROUP BY h SLIMIT 1 SOFFSET 1", "SELECT median(v) FROM SOURCE ORDER BY time DESC",
		"SELECT mean(v) FROM SOURCE WHERE time > 0 AND time < 3d GROUP BY time(1d) fill(none) tz('Europe/Berlin')",
		"SELECT mode(v), top(v, 1) FROM SOURCE", "SELECT distinct(v) FROM SOURCE GROUP BY h",
		"SELECT max(x) FROM (SELECT count(v) AS x FROM SOURCE GROUP BY h)", "SELECT sum(v) FROM SOURCE, m07 GROUP BY h",
		"SELECT sum(v), max(w) FROM SOURCE, m07 WHERE h = 'b' GROUP BY h", "SELECT v FROM SOURCE WHERE h = 'b' AND w > 9 ORDER BY time DESC",
		"SELECT count(v) FROM SOURCE WHERE (h = 'b' OR v = 7) AND time > 0 AND time < 9d GROUP BY time(4d) fill(0)",
		"SELECT last(v) FROM SOURCE WHERE h =~ /b|c/ AND w = 20", "SELECT last(v) FROM SOURCE WHERE h = 'c'", "SELECT last(v) FROM SOURCE WHERE h != 'a'",
	} {
		text := func(source string, parts int) []*result.Series {
			out, err := collectSelect(t.Context(), m, strings.Replace(q, "SOURCE", source, 1), Options{Workers: 2, partNames: parts})
			if err != nil && !strings.Contains(q, "top(v, 1)") {
				t.Fatal(q, err)
			}
			var all []*result.Series
			for _, r := range out {
				all = append(all, r.Series...)
			}
			return all
		}
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("m%02d", i))
		}
		if want, got := text(strings.Join(names, ", "), n), text("/^m/", 8); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d series by a regular expression, %d by names, or others", q, len(got), len(want))
		}
	}
}

// TestPartsAreBounded: the memory of a statement does not grow with the measurements that
// a regular expression names, except for their names, if the client takes the answer as
// it comes.
func TestPartsAreBounded(t *testing.T) {
	m := partsStore(t, 160)
	for _, q := range []string{
		"SELECT * FROM /./ LIMIT 1", "SELECT mean(v) FROM /./ GROUP BY *", "SELECT v FROM /./ WHERE h = 'a'",
		"SELECT median(v) FROM /./ GROUP BY h", "SELECT last(v), h FROM /./ ORDER BY time DESC",
	} {
		for _, c := range []struct {
			chunk int
			bytes int64
			fits  bool
		}{{1000, 40 << 10, true}, {0, 40 << 10, false}, {1000, 4 << 10, false}} {
			series := 0
			stmt, err := parseSelect(m, q)
			if err != nil {
				t.Fatal(err)
			}
			err = Select(t.Context(), stmt, m, Options{MemoryBytes: c.bytes, ChunkSize: c.chunk, Workers: 2, partNames: 4}, func(r *result.Result) error {
				series += len(r.Series)
				return nil
			})
			if c.fits && (err != nil || series < 160) || !c.fits && !errors.Is(err, admission.ErrMemory) {
				t.Errorf("%s in chunks of %d in %d bytes: %d series, %v", q, c.chunk, c.bytes, series, err)
			}
		}
	}
}

// TestStopParts: a statement over many measurements looks at the context for each.
func TestStopParts(t *testing.T) {
	const n = 60
	m := partsStore(t, n)
	for _, q := range []string{"SELECT * FROM /./", "SELECT mean(v) FROM /./ GROUP BY *", "SELECT x FROM /./", "SELECT mean(v) FROM /./ WHERE x = 1"} {
		stmt, err := parseSelect(m, q)
		if err != nil {
			t.Fatal(err)
		}
		ctx := newLookContext(t, 0, 0)
		none := func(*result.Result) error { return nil }
		if err := Select(ctx, stmt, m, Options{Workers: 1, partNames: 8}, none); err != nil {
			t.Fatal(q, err)
		}
		looks := ctx.looks.Load()
		if looks < n {
			t.Errorf("%s: %d looks at the context", q, looks)
		}
		for part := range int64(8) {
			ctx := newLookContext(t, 1+looks*part/8, 0)
			if err := Select(ctx, stmt, m, Options{Workers: 1, partNames: 8}, none); !errors.Is(err, ctx.Context.Err()) {
				t.Errorf("%s ended at look %d of %d: %v", q, 1+looks*part/8, looks, err)
			}
		}
	}
}
