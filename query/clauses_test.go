package query

import (
	"strings"
	"testing"
)

// TestClausesRun: the answers of clauses of our own.
func TestClausesRun(t *testing.T) {
	c, e := newContinuousStore(t)
	c.shardEachDay(t)
	c.Write(t, "d", "", "s", `m,h=a v=1 0
m,h=a v=2 86400
m,h=a v=4 2764800
m,h=b v=8 3000000
m,h=b v=16 5270400
m,h=c v=32 31622400
m,h=c v=64 31708800`)
	c.Write(t, "d", "", "s", `g,h=a x=1,s="p" 3600
g,h=a x=2 7300
g,h=a x=3 18000
g,h=b x=9 3700`)
	opt := ExecuteOptions{Database: "d"}
	for _, step := range []struct{ q, want string }{
		{"SELECT v FROM m WHERE h IN ('a', 'c') AND v NOT IN (1, 64)", "m(time v): 86400000000000 2; 2764800000000000 4; 31622400000000000 32"},
		{"SELECT v FROM m WHERE h NOT IN ('a', /c/)", "m(time v): 3000000000000000 8; 5270400000000000 16"},
		{"SELECT v FROM m WHERE time BETWEEN 1d AND 33d AND v BETWEEN 3 AND 5", "m(time v): 2764800000000000 4"},

		// January to March 1970, and January 1971.
		{"SELECT sum(v) FROM m WHERE time >= 0 AND time < 366d GROUP BY time(1mo) fill(none)", "m(time sum): 0 3; 2678400000000000 12; 5097600000000000 16"},
		{"SELECT sum(v) FROM m WHERE time >= 0 AND time < 90d GROUP BY time(1mo) fill(0) ORDER BY time DESC", "m(time sum): 5097600000000000 16; 2678400000000000 12; 0 3"},
		{"SELECT sum(v) FROM m WHERE time >= 0 AND time < 400d GROUP BY time(1y)", "m(time sum): 0 31; 31536000000000000 96"},
		{"SELECT count(v) FROM m WHERE time >= 0 AND time < 200d GROUP BY time(1q) fill(7)", "m(time count): 0 5; 7776000000000000 7; 15638400000000000 7"},
		// Months from the second on, with the first cut off by no bound of time.
		{"SELECT sum(v) FROM m WHERE time >= 0 AND time < 40d GROUP BY time(1mo, 1d)", "m(time sum): -2592000000000000 1; 86400000000000 2; 2764800000000000 12"},
		// Midnight of Berlin is an hour earlier.
		{"SELECT sum(v) FROM m WHERE time >= 0 AND time < 40d GROUP BY time(1mo) tz('Europe/Berlin')", "m(time sum): -3600000000000 3; 2674800000000000 12"},
		{"SELECT sum(v) FROM m WHERE time < 31d GROUP BY time(1mo)", "m(time sum): 0 3"},
		{"SELECT mean(s) FROM (SELECT sum(v) AS s FROM m WHERE time >= 0 AND time < 90d GROUP BY time(1mo), h) GROUP BY time(1q)", "m(time mean): 0 3"},
		{"SELECT difference(sum(v)) FROM m WHERE time >= 31d AND time < 90d GROUP BY time(1mo)", "m(time difference): 2678400000000000 9; 5097600000000000 4"},
		{"SELECT mean(v) FROM m WHERE time >= 0 AND time < 90d GROUP BY time(1mo), h fill(linear)", "m,h=a(time mean): 0 1.5; 2678400000000000 4; 5097600000000000 <nil> | m,h=b(time mean): 0 <nil>; 2678400000000000 8; 5097600000000000 16"},
		{"SELECT holt_winters(sum(v), 1, 0) FROM m WHERE time >= 0 AND time < 90d GROUP BY time(1mo)", "error: holt_winters needs windows of equal length"},

		// The value before the range fills its first windows.
		{"SELECT max(x) FROM g WHERE time >= 3h AND time < 6h GROUP BY time(1h), h fill(previous)", "g,h=a(time max): 10800000000000 <nil>; 14400000000000 <nil>; 18000000000000 3"},
		{"SELECT max(x) FROM g WHERE time >= 3h AND time < 6h GROUP BY time(1h), h fill(previous, 1d)", "g,h=a(time max): 10800000000000 2; 14400000000000 2; 18000000000000 3 | g,h=b(time max): 10800000000000 9; 14400000000000 9; 18000000000000 9"},
		{"SELECT max(x) FROM g WHERE time >= 3h AND time < 6h GROUP BY time(1h), h fill(previous, 90m)", "g,h=a(time max): 10800000000000 2; 14400000000000 2; 18000000000000 3"},
		{"SELECT max(x) FROM g WHERE time >= 3h AND time < 6h GROUP BY time(1h) fill(previous, 1d) LIMIT 1 OFFSET 1", "g(time max): 14400000000000 2"},
		{"SELECT last(x), s, h FROM g WHERE time >= 3h AND time < 5h GROUP BY time(1h) fill(previous, 90m)", "g(time last s h): 10800000000000 2 <nil> a; 14400000000000 2 <nil> a"},
		{"SELECT difference(max(x)) FROM g WHERE time >= 3h AND time < 6h AND h = 'a' GROUP BY time(1h) fill(previous, 3h)", "g(time difference): 10800000000000 0; 14400000000000 0; 18000000000000 1"},
		{"SELECT sum(y) FROM (SELECT max(x) AS y FROM g WHERE time >= 3h AND time < 5h GROUP BY time(1h), h fill(previous, 1d))", "g(time sum): 0 22"},
		{"SELECT max(x) FROM g WHERE time >= 3h GROUP BY h fill(previous, 1d)", "error: fill(previous, duration) needs GROUP BY time"},
		{"SELECT max(x) FROM g WHERE time >= 3h GROUP BY time(1h) fill(previous, 1d) ORDER BY time DESC", "error: fill(previous, duration) needs ORDER BY time ASC"},

		{"SELECT sum(v) FROM m GROUP BY h HAVING count(v) > 2", "m,h=a(time sum): 0 7"},
		{"SELECT sum(v), count(v) FROM m WHERE time >= 0 AND time < 90d GROUP BY time(1mo), h HAVING count(v) >= 1 AND sum(v) > 5 ORDER BY time DESC LIMIT 1", "m,h=b(time sum count): 5097600000000000 16 1"},
		{"SELECT sum(v) FROM m GROUP BY h HAVING sum(v) > 100", ""},
	} {
		if got := strings.Join(extendedRun(t, t.Context(), e, opt, step.q), "\n"); got != step.want {
			t.Errorf("%s\n got %s\nwant %s", step.q, got, step.want)
		}
	}
}
