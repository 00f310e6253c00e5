package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tsdbd/model/scan/scantest"
)

// TestRowsReadOnce: calls that want rows share one read, and a subquery runs
// once for all calls. MaxSelectPoint counts the rows that are read.
func TestRowsReadOnce(t *testing.T) {
	m := limitsStore(t) // 600 rows
	nested := "SELECT v, w FROM m"
	for range 24 {
		nested = fmt.Sprintf("SELECT median(v) AS v, mode(w) AS w, max(v) AS x FROM (%s) WHERE time >= 0 AND time < 1600000000s GROUP BY time(1h), h", nested)
	}
	for _, c := range []struct {
		q    string
		read int
	}{
		{"SELECT percentile(v, 50), percentile(v, 90), percentile(v, 99), median(v), median(w) FROM m", 600},
		{"SELECT percentile(v, 50), median(w) FROM m GROUP BY h", 600},
		{"SELECT mode(v), count(distinct(w)), mean(v), first(s) FROM m", 600},
		{"SELECT mode(v), mode(s), sum_hll(w), max(w) FROM m GROUP BY h", 600},
		{"SELECT integral(v), integral(v, 1m), distinct(v) FROM m", -1}, // refused: distinct stands alone
		{"SELECT integral(v), integral(v, 1m) FROM m ORDER BY time DESC", 600},
		{"SELECT median(x), mode(x), min(x), integral(x), mean(y) FROM (SELECT v AS x, w AS y FROM m)", 600},
		{"SELECT median(x), mode(x), min(x), integral(x), mean(y) FROM (SELECT v AS x, w AS y FROM m) ORDER BY time DESC", 600},
		{nested, 600},
	} {
		res, err := collectSelect(context.Background(), m, c.q, Options{MaxSelectPoint: max(1, c.read)})
		if c.read < 0 {
			if err == nil {
				t.Errorf("%s: no error", c.q)
			}
			continue
		}
		if err != nil || len(res) == 0 {
			t.Errorf("%.120s: %v", c.q, err)
		}
	}
}

// TestSubqueryRunsOnce: all calls see the same rows of a subquery, also where
// each run would give others.
func TestSubqueryRunsOnce(t *testing.T) {
	m := limitsStore(t)
	for range 5 {
		res, err := collectSelect(context.Background(), m, "SELECT min(s), max(s), median(s), mode(s), sum(s), percentile(s, 100) FROM (SELECT sample(v, 1) AS s FROM m)", Options{})
		if err != nil {
			t.Fatal(err)
		}
		row := strings.Fields(seriesTexts(res[0].Series)[1])[1:]
		if len(row) != 6 || len(slices.Compact(slices.Clone(row))) != 1 {
			t.Fatalf("one value in all columns, got %q", row)
		}
	}
}

// TestReadingsOfRanges: a call that looks back before the range does not show
// its windows in the columns of another.
func TestReadingsOfRanges(t *testing.T) {
	m := scantest.New()
	m.Create("d", "autogen")
	m.Write(t, "d", "", "s", "m v=1 5\nm v=2 15\nm v=4 25\nm v=8 35")
	want := []string{"m[] [time difference median] 2", "10000000000 1 2 ", "20000000000 2 4 "}
	for _, from := range []string{"m", "(SELECT v FROM m)", "(SELECT max(v) AS v FROM m GROUP BY time(10s))"} {
		for _, order := range []string{"", " ORDER BY time DESC"} {
			res, err := collectSelect(context.Background(), m, "SELECT difference(median(v)), median(v) FROM "+from+" WHERE time >= 10s AND time < 30s GROUP BY time(10s)"+order, Options{})
			if err != nil {
				t.Fatal(err)
			}
			expected := slices.Clone(want)
			if order != "" {
				expected = []string{want[0], "20000000000 -4 4 ", "10000000000 -2 2 "}
			}
			if got := seriesTexts(res[0].Series); !slices.Equal(got, expected) {
				t.Errorf("FROM %s%s\n got %q\nwant %q", from, order, got, expected)
			}
		}
	}
}
