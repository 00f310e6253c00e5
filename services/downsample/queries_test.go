package downsample

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/query/downsample"
)

// TestQueriesModel: a SELECT has the same answer with and without downsamples, except for the
// last digits, whatever windows are computed.
func TestQueriesModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	used, unused := 0, 0
	for range 6 {
		h := &harness{t: t, use: downsample.Complete}
		h.begin()
		h.now = time.Unix(0, 0).Add(72*time.Hour + 10*time.Minute)
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY t1 ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; CREATE RETENTION POLICY t2 ON d DURATION INF REPLICATION 1 SHARD DURATION 7d")
		h.must("CREATE DOWNSAMPLE ON d FROM raw INTO t1 EVERY 1h AS " + pick("mean, max, count", "sum, min, max, count, percentile", "first, last, mean, count, median, increase", "mean, spread, first, last, distinct, percentile(95)", "increase, distinct"))
		h.must("CREATE DOWNSAMPLE ON d FROM raw INTO t2 EVERY 6h AS max, count, sum")
		write := func(from, to int) {
			var lines strings.Builder
			for range 60 {
				fmt.Fprintf(&lines, "m,a=%s%s f=%d,i=%di,u=%du %d\n", pick("x", "y", "z"), pick("", ",b=1"), rnd.IntN(64), rnd.IntN(64), rnd.IntN(64), from+rnd.IntN(to-from))
			}
			fmt.Fprintf(&lines, "other,a=x f=%d %d\n", rnd.IntN(64), from+rnd.IntN(to-from))
			fmt.Fprintf(&lines, "m,a=x f=%d,s=\"text\" %d\n", rnd.IntN(64), from+rnd.IntN(to-from))
			if err := h.load("raw", lines.String()); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			write(0, 3600*72)
		}
		for day := range 3 { // each shard of the source has the field, so that both know that it is text
			if err := h.load("raw", fmt.Sprintf("m,a=x s=\"text\" %d\n", day*86400)); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		for range 120 {
			switch rnd.IntN(20) {
			case 0:
				from := rnd.IntN(3600 * 71)
				write(from, from+3600)
			case 1:
				if err := h.settle(); err != nil {
					t.Fatal(err)
				}
			}
			group, every := pick("", ", a", ", *", ", a, b"), pick("1h", "2h", "6h", "12h", "1d", "1d, 6h", "30m", "6h, 1h", "1h, 30m", "1mo")
			noTime := rnd.IntN(6) == 0
			fields := make([]string, 1+rnd.IntN(3))
			for i := range fields {
				if fields[i] = pick("max(f)", "count(i)", "sum(i)", "mean(f)", "min(i)"); rnd.IntN(3) > 0 {
					continue
				}
				fields[i] = pick("max(f)", "mean(f)", "count(i)", "sum(i)", "min(i)", "median(f)", "count(s)", "mean(f) * 2", "derivative(max(i), 1h)", "cumulative_sum(sum(i))", "abs(min(i))", "max(f) - min(f)",
					"mean(i)", "mean(u)", "sum(s)", "sum(f) / count(f)", "spread(f)", "percentile(f, 50)", "percentile(i, 90)", "median(u)", "count(distinct(i))", "count_hll(sum_hll(i))", "count_hll(sum_hll(s))", "moving_average(max(f), 2)", "mean(f) + max(i)", "difference(count(i))", "non_negative_derivative(mean(f))",
					"mean(*)", "count(*)", "max(/f|i/)", "last(f)", "first(i)", "stddev(f)", "max(f::integer)", "holt_winters(sum(i), 2, 2)", "count(nope)")
				if fields[i] == "last(f)" || fields[i] == "first(i)" {
					group = ", *" // rows of one window of several series have an order in the source only
				}
			}
			if every == "1h" && !noTime && rnd.IntN(2) == 0 { // in longer windows the source has steps over longer gaps
				fields[0] = pick("increase(f)", "increase(i)", "increase(u)", "increase(*)", "derivative(increase(i), 1m)", "increase(i) / count(i)")
			}
			if noTime { // the time of one selector is that of a row or of a window
				fields = append(fields, "count(f)", "mean(i)")
			}
			bound := func(at int) string {
				return time.Unix(int64(at), 0).UTC().Format(time.RFC3339)
			}
			from := rnd.IntN(3600 * 60)
			to := from + rnd.IntN(3600*72-from)
			if rnd.IntN(2) == 0 {
				from, to = from/3600*3600, to/3600*3600
			}
			where := "time >= '" + bound(from) + "'"
			if rnd.IntN(4) > 0 {
				where += " AND time < '" + bound(to) + "'"
			}
			where += pick("", "", " AND a = 'x'", " AND a != 'x' AND b = ''", " AND a =~ /[xy]/", " AND (a = 'x' OR b = '1')", " AND f > 10")
			source := pick("m", "m", "m", "m", "raw.m", "/m/", "m, other", "(SELECT max(f) AS f, sum(i) AS i, mean(u) AS u FROM m GROUP BY time(1h), a, b)", "(SELECT mean(f) AS f, max(i) AS i FROM m GROUP BY a, b)",
				"(SELECT * FROM m)", "m, nope", "(SELECT max(f) AS f FROM m GROUP BY time(6h), a), m")
			by := "time(" + every + ")" + group
			if noTime {
				by = "a" + group
			}
			q := fmt.Sprintf("SELECT %s FROM %s WHERE %s GROUP BY %s%s%s%s%s", strings.Join(fields, ", "), source, where, by,
				pick("", "", " fill(none)", " fill(0)", " fill(previous)", " fill(linear)"), pick("", "", " ORDER BY time DESC"), pick("", "", " LIMIT 3", " SLIMIT 2", " LIMIT 2 OFFSET 1", " SLIMIT 1 SOFFSET 1"), pick("", "", "", " tz('Asia/Kathmandu')", " tz('Europe/Berlin')"))
			want := rounded(h.ask(q))
			h.rewrite, h.notes = true, nil
			got := rounded(h.ask(q))
			h.rewrite = false
			if len(h.notes) > 0 {
				used++
			} else {
				unused++
			}
			if got != want {
				t.Fatalf("%s\n%s\ngot\n%s\nwant\n%s", q, h.notes, got, want)
			}
		}
	}
	t.Logf("%d statements with downsamples, %d without", used, unused)
	if used < 40 {
		t.Errorf("only %d statements took a downsample", used)
	}
}

var number = regexp.MustCompile(`-?\d+\.\d+`)

// rounded rounds the numbers of a text to twelve digits.
func rounded(text string) string {
	return number.ReplaceAllStringFunc(text, func(digits string) string {
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return digits
		}
		return strconv.FormatFloat(f, 'g', 12, 64)
	})
}

// TestExplain: EXPLAIN says that a downsample answers, and runs what answers.
func TestExplain(t *testing.T) {
	h := &harness{t: t, use: downsample.Complete}
	h.begin()
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1; CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max")
	h.now = time.Unix(0, 0).Add(36 * time.Hour)
	if err := h.load("raw", "m f=1 3600\nm f=2 80000"); err != nil {
		t.Fatal(err)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	const q = "SELECT max(f) FROM m WHERE time >= 0 AND time < 40h GROUP BY time(6h)"
	for text, want := range map[string]bool{"EXPLAIN " + q: true, "EXPLAIN ANALYZE " + q: true, "EXPLAIN SELECT f FROM m": false} {
		h.rewrite = true
		got := h.ask(text)
		if told := strings.Contains(got, "DOWNSAMPLE: rows of raw from 1970-01-01T00:00:00Z to 1970-01-02T12:00:00Z are from the downsample hours, in windows of 1h"); told != want {
			t.Errorf("%s:\n%s", text, got)
		}
	}
	h.rewrite, h.notes = true, nil
	if h.ask(strings.Replace(q, " FROM", " INTO t FROM", 1)); len(h.notes) > 0 {
		t.Errorf("INTO takes a downsample: %v", h.notes)
	}
}

// TestExactBesideEstimates: functions that a downsample answers for rows that are there are from it,
// whatever stands beside them, and percentiles are not.
func TestExactBesideEstimates(t *testing.T) {
	h := &harness{t: t, use: downsample.Complete}
	h.begin()
	h.now = time.Unix(0, 0).Add(10 * time.Hour)
	h.must("CREATE DATABASE d WITH NAME raw; CREATE RETENTION POLICY minutes ON d DURATION INF REPLICATION 1; CREATE DOWNSAMPLE ON d FROM raw INTO minutes EVERY 1m AS max, last, percentile")
	var lines strings.Builder
	for at := range 500 {
		fmt.Fprintf(&lines, "m f=%d %d\n", at%97, at*10)
	}
	if err := h.load("raw", lines.String()); err != nil {
		t.Fatal(err)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	for fields, used := range map[string]bool{"max(f), last(f)": true, "max(f), median(f)": true, "percentile(f, 95), last(f)": true, "median(f), percentile(f, 95)": false} {
		q := fmt.Sprintf("SELECT %s FROM m WHERE time >= 0 AND time < 5000s GROUP BY time(10m)", fields)
		h.rewrite, h.notes = false, nil
		want := h.ask(q)
		h.rewrite = true
		if got := h.ask(q); got != want || (len(h.notes) > 0) != used || strings.Contains(fmt.Sprint(h.notes), "estimates") {
			t.Errorf("%s: %s, want %s; notes %v", fields, got, want, h.notes)
		}
	}
}

// TestFewerValues: where both have the rows, what has fewer values answers, and EXPLAIN says so.
func TestFewerValues(t *testing.T) {
	h := &harness{t: t, use: downsample.Complete}
	h.begin()
	h.now = time.Unix(0, 0).Add(100 * time.Hour)
	h.must("CREATE DATABASE d WITH NAME raw; CREATE RETENTION POLICY minutes ON d DURATION INF REPLICATION 1; CREATE DOWNSAMPLE ON d FROM raw INTO minutes EVERY 1m AS mean, max")
	for name, seconds := range map[string]int{"dense": 10, "sparse": 60} {
		var lines strings.Builder
		for at := range 5000 {
			fmt.Fprintf(&lines, "%s f=%d %d\n", name, at%97, at*seconds)
		}
		if err := h.load("raw", lines.String()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fields, measurement, want string }{
		{"max(f)", "dense", "are from the downsample minutes"},
		{"mean(f), max(f)", "dense", "are from the downsample minutes"},
		{"max(f)", "sparse", "are from the downsample minutes"},
		{"mean(f), max(f)", "sparse", "are not from the downsample minutes: it has about 15000 values to read, raw 5000"},
	} {
		q := fmt.Sprintf("SELECT %s FROM %s WHERE time >= 0 AND time < 5000m GROUP BY time(1h)", c.fields, c.measurement)
		h.rewrite = false
		want := h.ask(q)
		h.rewrite = true
		if got := h.ask(q); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
		if got := h.ask("EXPLAIN " + q); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", q, got, c.want)
		}
	}
}
