package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/model/scan/scantest"
)

// zonesStore holds what the statements of the tests of zones read: rows in the days in which
// Berlin moves its clocks, and in another policy rows at the ends of time.
func zonesStore(t *testing.T) *scantest.Store {
	m := scantest.New()
	m.Create("d", "autogen")
	var lines strings.Builder
	for _, from := range []int64{1679702400, 1698451200} {
		for i := range int64(300) {
			fmt.Fprintf(&lines, "m,h=%c v=%d,w=%d %d\n", 'a'+rune(i%3), i*37%101, i%7, from+i*613)
		}
	}
	m.Write(t, "d", "", "s", lines.String())
	m.Create("d", "far")
	m.Write(t, "d", "far", "s", "m,h=a v=3 -8000000000\nm,h=b v=4 -7000000000\nm,h=a v=1 9223372036\n")
	m.Write(t, "d", "far", "ns", "m,h=a v=2 -9223372036854775806\nm,h=a v=4 5\n")
	return m
}

// zonesAnswer runs a statement at the end of the rows of zonesStore.
func zonesAnswer(t *testing.T, m *scantest.Store, q string) string {
	return answerAt(t, m, q, time.Unix(1698700000, 0))
}

// TestZonesOfSubqueries: windows in UTC are those without a zone, whatever rows a subquery
// gives, and wherever the range of times stands.
func TestZonesOfSubqueries(t *testing.T) {
	m := zonesStore(t)
	const times = "time >= 1698460450s AND time < 1698530000s"
	for _, from := range []string{
		"SELECT v AS x FROM m",
		"SELECT v AS x FROM m WHERE TIMES",
		"SELECT v AS x FROM m WHERE TIMES GROUP BY h",
		"SELECT v + w AS x FROM m WHERE w > 2 AND time < 1698530000s",
		"SELECT mean(v) AS x FROM m GROUP BY h",
		"SELECT mean(v) AS x FROM m WHERE TIMES GROUP BY time(5m), h",
		"SELECT mean(v) AS x FROM m WHERE TIMES GROUP BY time(7m, 2m), h fill(0)",
		"SELECT mean(v) AS x FROM m WHERE TIMES GROUP BY time(6h), h",
		"SELECT mean(v) AS x FROM m WHERE time > 1698460450s GROUP BY time(1d) fill(previous)",
		"SELECT max(v) AS x FROM m WHERE TIMES",
		"SELECT last(v) AS x FROM m WHERE TIMES GROUP BY h",
		"SELECT top(v, 5) AS x FROM m WHERE TIMES",
		"SELECT bottom(v, h, 3) AS x FROM m WHERE TIMES GROUP BY time(1h)",
		"SELECT derivative(mean(v), 1m) AS x FROM m WHERE TIMES GROUP BY time(30m), h",
		"SELECT holt_winters(mean(v), 9, 0) AS x FROM m WHERE TIMES GROUP BY time(2h)",
		"SELECT max(y) AS x FROM (SELECT mean(v) AS y FROM m WHERE TIMES GROUP BY time(5m), h) GROUP BY time(10m)",
		"SELECT y AS x FROM (SELECT v AS y FROM m), (SELECT w AS y FROM m WHERE TIMES)",
		"SELECT v AS x FROM far.m",
		"SELECT max(v) AS x FROM far.m GROUP BY time(1d)",
		"SELECT v AS x FROM m WHERE time > 1800000000s",
	} {
		for _, q := range []string{
			"SELECT sum(x) FROM (INNER) GROUP BY time(5m) fill(none)",
			"SELECT sum(x), count(x), max(x) FROM (INNER) GROUP BY time(1m), h fill(none)",
			"SELECT first(x) FROM (INNER) GROUP BY time(90m, 10m) fill(none) ORDER BY time DESC",
			"SELECT median(x) FROM (INNER) GROUP BY time(1d) fill(none)",
			"SELECT mean(x) FROM (INNER) GROUP BY time(1ns) fill(none) LIMIT 7",
			"SELECT sum(x) FROM (INNER) WHERE TIMES GROUP BY time(5m) LIMIT 50",
			"SELECT sum(x) FROM (INNER) WHERE time > 1698460450s GROUP BY time(1m), h fill(0) LIMIT 20 OFFSET 3",
			"SELECT mean(x) FROM (INNER) GROUP BY time(1h) fill(null) ORDER BY time DESC LIMIT 30",
			"SELECT difference(sum(x)) FROM (INNER) GROUP BY time(20m) fill(none)",
			"SELECT max(y) FROM (SELECT sum(x) AS y FROM (INNER) GROUP BY time(5m) fill(none)) GROUP BY time(20m) fill(none)",
			"SELECT sum(x), count(v) FROM (INNER), m GROUP BY time(5m) fill(none)",
		} {
			q = strings.ReplaceAll(strings.Replace(q, "INNER", from, 1), "TIMES", times)
			if want, got := zonesAnswer(t, m, q), zonesAnswer(t, m, q+" tz('UTC')"); got != want {
				t.Errorf("%s\nanswers in UTC\n%.1000s\nand without a zone\n%.1000s", q, got, want)
			}
			stmt, err := parseSelect(m, q+" tz('UTC')")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Explain(t.Context(), stmt, m, Options{}); err != nil {
				t.Errorf("EXPLAIN %s: %v", q, err)
			}
		}
	}
}

// TestZonesMoveClocks: the rows of a subquery fall into the windows of a zone in which they
// would without it, also on the days whose clocks are moved.
func TestZonesMoveClocks(t *testing.T) {
	m := zonesStore(t)
	for _, every := range []string{"1ms", "20m", "1h", "2h", "1d", "1d, 90m", "1w"} {
		for _, times := range []string{"", "WHERE time >= 1698451200s AND time < 1698700000s", "WHERE time > 1679702400s AND time < 1679900000s"} {
			for _, end := range []string{"fill(none)", "fill(none) ORDER BY time DESC"} {
				end = fmt.Sprintf("GROUP BY time(%s) %s tz('Europe/Berlin')", every, end)
				want := zonesAnswer(t, m, "SELECT sum(v), max(v) FROM m "+times+" "+end)
				got := zonesAnswer(t, m, "SELECT sum(x), max(x) FROM (SELECT top(v, 1000) AS x FROM m "+times+") "+end)
				if got != want || !strings.HasPrefix(got, "m: ") {
					t.Errorf("%s %s\nanswers\n%.1000s\nand without a subquery\n%.1000s", times, end, got, want)
				}
			}
		}
	}
}
