package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

func limitsStore(t testing.TB) *scantest.Store {
	m := scantest.New()
	m.Create("d", "autogen")
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, "m,h=h%d v=%d,w=%di,s=\"x%d\" %d\n", i%6, i, i, i%3, 1500000000+i)
	}
	m.Write(t, "d", "", "s", b.String())
	return m
}

// parseSelect parses a SELECT from database d.
func parseSelect(m *scantest.Store, q string) (*influxql.SelectStatement, error) {
	parsed, err := syntax.Parse(q, nil)
	if err != nil {
		return nil, err
	}
	stmt := parsed.Statements[0].(*influxql.SelectStatement)
	return stmt, syntax.Resolve(stmt, m.Catalog(), "d", "")
}

// collectSelect runs a statement and returns its Results.
func collectSelect(ctx context.Context, m *scantest.Store, q string, opt Options) ([]*result.Result, error) {
	stmt, err := parseSelect(m, q)
	if err != nil {
		return nil, err
	}
	var out []*result.Result
	err = Select(ctx, stmt, m, opt, func(r *result.Result) error {
		out = append(out, r)
		return nil
	})
	return out, err
}

func TestSelectLimits(t *testing.T) {
	m := limitsStore(t)
	for _, c := range []struct {
		q    string
		opt  Options
		want string // part of the error; "" is success
	}{
		{"SELECT v FROM m", Options{MaxSelectPoint: 600}, ""},
		{"SELECT v FROM m", Options{MaxSelectPoint: 100}, "max-select-point limit exceeded: ("},
		{"SELECT mean(v) FROM m", Options{MaxSelectPoint: 100}, "max-select-point limit exceeded: ("},
		{"SELECT v FROM m", Options{MaxSelectSeries: 6}, ""},
		{"SELECT v FROM m", Options{MaxSelectSeries: 5}, "max-select-series limit exceeded: (6/5)"},
		{"SELECT count(v) FROM m WHERE time >= 1500000000s AND time < 1500000600s GROUP BY time(1m)", Options{MaxSelectBuckets: 10}, ""},
		{"SELECT count(v) FROM m WHERE time >= 1500000000s AND time < 1500000600s GROUP BY time(1m)", Options{MaxSelectBuckets: 9}, "max-select-buckets limit exceeded: (10/9)"},
		{"SELECT v FROM m", Options{MemoryBytes: 1000}, "query memory limit exceeded"},
		{"SELECT count(v) FROM m WHERE time >= 0 GROUP BY time(1s)", Options{MemoryBytes: 1 << 20}, "query memory limit exceeded"},
		{"SELECT count(v) FROM m WHERE time >= 0 GROUP BY time(1d) tz('Europe/Berlin')", Options{}, ""},
		{"SELECT count(v) FROM m GROUP BY time(1ns) tz('Europe/Berlin')", Options{MemoryBytes: 1 << 20}, "query memory limit exceeded"},
		{"SELECT holt_winters(mean(v), 1, 500) FROM m WHERE time >= 1500000000s AND time < 1500000600s GROUP BY time(1s)", Options{MemoryBytes: 1 << 20}, "query memory limit exceeded"},
		{"SELECT v INTO x FROM m", Options{}, "SELECT INTO is not supported here"},
		{"SELECT v FROM nosuch.m", Options{}, "retention policy not found: nosuch"},
		{"SELECT v FROM nosuch..m", Options{}, "database not found: nosuch"},
	} {
		_, err := collectSelect(context.Background(), m, c.q, c.opt)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.q, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got error %v, want %q", c.q, err, c.want)
		}
	}
}

// An endless range of empty windows costs nothing under a LIMIT.
func TestSelectLazyWindows(t *testing.T) {
	m := limitsStore(t)
	for _, q := range []string{
		"SELECT count(v) FROM m WHERE time >= 1500000000s AND time < 1500000300s GROUP BY time(1ns) LIMIT 3",
		"SELECT mean(v) FROM m GROUP BY time(10ns) LIMIT 3",
		"SELECT mean(v), max(w) FROM m WHERE time > 0 GROUP BY time(1s), h LIMIT 2",
		"SELECT mean(v) FROM m GROUP BY time(1ns) ORDER BY time DESC LIMIT 3",
		"SELECT mean(v) + count(w) FROM m WHERE time > 0 GROUP BY time(1ms) fill(previous) LIMIT 5 OFFSET 7",
		// 50 years of nanoseconds.
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) LIMIT 5",
		"SELECT count(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(0) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(none) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(previous) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(linear) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns), h fill(7) ORDER BY time DESC LIMIT 5 OFFSET 2",
		"SELECT mean(v), max(w), last(s) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(previous) ORDER BY time DESC LIMIT 5",
		"SELECT median(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(previous, 1d) LIMIT 5",
		"SELECT mean(v) FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) HAVING count(v) > 0 LIMIT 5",
		"SELECT x FROM (SELECT mean(v) AS x FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(0) LIMIT 5)",
		"SELECT x FROM (SELECT mean(v) AS x FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns)) LIMIT 5",
		"SELECT mean(x) FROM (SELECT mean(v) AS x FROM m GROUP BY time(1ns)) WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(0) LIMIT 5",
		"SELECT x FROM (SELECT mean(v) AS x FROM m WHERE time >= '1970-01-01' AND time < '2020-01-01' GROUP BY time(1ns) fill(0)) LIMIT 5",
	} {
		// Going through all the windows would take years.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		res, err := collectSelect(ctx, m, q, Options{MemoryBytes: 4 << 20})
		cancel()
		if err != nil || len(res) != 1 || res[0].Series[0].Rows == 0 {
			t.Errorf("%s: %v %v", q, res, err)
		}
	}
}

// TestSelectStreams reads a few series whose rows take many times the memory that
// the statement may hold.
func TestSelectStreams(t *testing.T) {
	m := scantest.New()
	m.Create("d", "autogen")
	const rows = 100_000
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "m,h=%d v=%d %d\n", i%2, i, 1500000000+i)
	}
	m.Write(t, "d", "", "s", b.String())
	for _, q := range []string{
		"SELECT v FROM m", "SELECT * FROM m", "SELECT v FROM m ORDER BY time DESC", "SELECT v * 2 FROM m",
		"SELECT v FROM m LIMIT 90000", "SELECT v FROM m LIMIT 90000 OFFSET 5", "SELECT v FROM m WHERE h = '0'",
	} {
		res, err := collectSelect(t.Context(), m, q, Options{MemoryBytes: 512 << 10, ChunkSize: 1000, streamRows: 1 << 11})
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		n, want := 0, rows
		for _, r := range res {
			for _, s := range r.Series {
				n += s.Rows
			}
		}
		if strings.Contains(q, "LIMIT") {
			want = 90000
		} else if strings.Contains(q, "WHERE") {
			want = rows / 2
		}
		if n != want {
			t.Errorf("%s: %d rows, want %d", q, n, want)
		}
	}
}

// TestFewRowsAreKept chooses a few rows from many, each of which is better than
// those before it, in memory for a few.
func TestFewRowsAreKept(t *testing.T) {
	m := scantest.New()
	m.Create("d", "autogen")
	const rows = 100_000
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "m,h=%d v=%d,s=\"text %d\" %d\n", i%2, i, i, 1500000000+i)
	}
	m.Write(t, "d", "", "s", b.String())
	for _, q := range []string{
		"SELECT top(v, 5) FROM m", "SELECT top(v, 100) FROM m", "SELECT top(v, h, 2) FROM m", "SELECT top(v, 5), h FROM m",
		"SELECT bottom(w, 5) FROM (SELECT 0 - v AS w FROM m)", "SELECT sample(s, 5) FROM m",
	} {
		if _, err := collectSelect(t.Context(), m, q, Options{MemoryBytes: 1 << 20, ChunkSize: 1000, streamRows: 1 << 11}); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	for _, q := range []string{"SELECT top(v, 1000000000) FROM m", "SELECT top(v, 50000), s FROM m", "SELECT sample(v, 1000000000) FROM m", "SELECT distinct(s) FROM m"} {
		if _, err := collectSelect(t.Context(), m, q, Options{MemoryBytes: 3 << 20, ChunkSize: 1000}); !errors.Is(err, admission.ErrMemory) {
			t.Errorf("%s: %v, want %v", q, err, admission.ErrMemory)
		}
	}
}

// The first rows of many series are found in slices of time; which must not show.
func TestSelectFirstRows(t *testing.T) {
	m := scantest.New()
	m.Create("d", "autogen")
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "m,h=h%03d v=%d %d\n", i*37%100, i, 1500000000+(i*i)%9973)
	}
	m.Write(t, "d", "", "s", b.String())
	for _, order := range []string{"ASC", "DESC"} {
		all, err := collectSelect(context.Background(), m, "SELECT v, h FROM m WHERE v > 100 ORDER BY time "+order, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows := seriesTexts(all[0].Series)[1:]
		for _, limit := range []int{1, 2, 13, 100, 899, 5000} {
			for _, offset := range []int{0, 3, 400} {
				q := fmt.Sprintf("SELECT v, h FROM m WHERE v > 100 ORDER BY time %s LIMIT %d OFFSET %d", order, limit, offset)
				res, err := collectSelect(context.Background(), m, q, Options{})
				if err != nil {
					t.Fatal(err)
				}
				got := seriesTexts(res[0].Series)[1:]
				want := rows[offset:min(offset+limit, len(rows))]
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s:\n got %v\nwant %v", q, got, want)
				}
			}
		}
	}
}

// Statements that would run for days end with their context.
func TestSelectCancel(t *testing.T) {
	m := limitsStore(t)
	for _, q := range []string{
		"SELECT count(v) FROM m WHERE time > 0 GROUP BY time(1u)",
		"SELECT difference(count(v)) FROM m WHERE time > 0 GROUP BY time(1u)",
		"SELECT sum(c) FROM (SELECT count(v) AS c FROM m WHERE time > 0 GROUP BY time(1u) fill(0)) GROUP BY time(1m)",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err := collectSelect(ctx, m, q, Options{MemoryBytes: -1})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", q, err)
		}
	}
}

// Results in chunks carry the same rows as one Result, with the marks clients
// look at: a Result ends at the chunk size or with its series.
func TestSelectChunks(t *testing.T) {
	m := limitsStore(t)
	for _, q := range []string{
		"SELECT v, s FROM m", "SELECT v FROM m GROUP BY h", "SELECT mean(v) FROM m GROUP BY h",
		"SELECT v FROM m WHERE h = 'h1' ORDER BY time DESC", "SELECT v FROM m LIMIT 10",
	} {
		whole, err := collectSelect(context.Background(), m, q, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 7, 100, 600, 1000} {
			parts, err := collectSelect(context.Background(), m, q, Options{ChunkSize: size})
			if err != nil {
				t.Fatal(err)
			}
			var joined []*result.Series
			for i, r := range parts {
				if len(r.Series) != 1 || r.Series[0].Rows > size || r.Series[0].Rows == 0 {
					t.Fatalf("%s in %d: result %d has %d series", q, size, i, len(r.Series))
				}
				if r.Partial != (i < len(parts)-1) {
					t.Errorf("%s in %d: result %d of %d partial=%v", q, size, i, len(parts), r.Partial)
				}
				s := r.Series[0]
				if n := len(joined); n > 0 && joined[n-1].Partial {
					p := joined[n-1]
					for j := range p.Values {
						expr.Extend(&p.Values[j], p.Rows, &s.Values[j], 0, s.Rows)
					}
					p.Rows += s.Rows
					p.Partial = s.Partial
					continue
				}
				joined = append(joined, s)
			}
			if got, want := fmt.Sprint(seriesTexts(joined)), fmt.Sprint(seriesTexts(whole[0].Series)); got != want {
				t.Errorf("%s in %d:\n got %.300s\nwant %.300s", q, size, got, want)
			}
		}
	}
}

func seriesTexts(list []*result.Series) []string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprint(s.Name, s.Tags, s.Columns, s.Rows))
		for i := range s.Rows {
			row := ""
			for j := range s.Values {
				c, _ := cellJSON(&s.Values[j], i)
				row += fmt.Sprint(c, " ")
			}
			out = append(out, row)
		}
	}
	return out
}

// TestBucketsWithoutLowerBound: max-select-buckets keeps that many windows, of which
// none before the first value is filled.
func TestBucketsWithoutLowerBound(t *testing.T) {
	m := limitsStore(t)
	for bound, want := range map[string]int{"<": 5, "<=": 6} {
		res, err := collectSelect(t.Context(), m, "SELECT count(v) FROM m WHERE time "+bound+" 1500000540s GROUP BY time(1m)", Options{MaxSelectBuckets: 5})
		if err != nil {
			t.Fatal(err)
		}
		if got := res[0].Series[0].Rows; got != want {
			t.Errorf("%s: %d windows, want %d", bound, got, want)
		}
	}
	for _, order := range []string{"", " ORDER BY time DESC"} {
		res, err := collectSelect(t.Context(), m, "SELECT count(v) FROM m WHERE time < 1500000180s GROUP BY time(1m)"+order, Options{MaxSelectBuckets: 5})
		if err != nil {
			t.Fatal(err)
		}
		if got := res[0].Series[0].Rows; got != 3 {
			t.Errorf("%d windows%s, want 3", got, order)
		}
	}
}

// FuzzSelect feeds statements to the whole path: nothing may panic, and the
// shape of storage and the number of workers may not show.
func FuzzSelect(f *testing.F) {
	for _, q := range []string{
		"SELECT v, s FROM m", "SELECT mean(v), last(s) FROM m GROUP BY time(1m), h fill(linear)",
		"SELECT top(v, h, 3), s FROM m", "SELECT derivative(max(v), 1s) FROM m GROUP BY time(7s) fill(previous)",
		"SELECT * FROM (SELECT mean(*) FROM m GROUP BY h) WHERE mean_v > 3", "SELECT percentile(v, 50.5), * FROM m",
		"SELECT abs(v) + pow(w, 2) / 0 FROM m WHERE s =~ /x[12]/ OR h = 'h1' AND v % 2 = 1",
		"SELECT mode(s), distinct(w) FROM /m|n/ ORDER BY time DESC LIMIT 3 OFFSET 1 SLIMIT 2 SOFFSET 1 tz('Asia/Kolkata')",
		"SELECT count(distinct(s)) FROM m WHERE time > 1500000100s AND time < '2017-07-14' + 3h GROUP BY time(90s, 5s), *",
		"SELECT holt_winters(sum(v), 5, 3) FROM m WHERE time >= 1500000000s AND time < 1500000600s GROUP BY time(30s)",
		"SELECT integral(v, 1m), cumulative_sum(w) FROM m", "SELECT moving_average(sum(w::float), 3) FROM m GROUP BY time(10s)",
		"SELECT stddev(v), spread(w), median(v) FROM m, (SELECT v FROM m WHERE v > 5) GROUP BY h",
	} {
		f.Add(q)
	}
	one, two := limitsStore(f), limitsStore(f)
	two.ChunkRows, two.Stats = 1000, false
	f.Fuzz(func(t *testing.T, q string) {
		if len(q) > 400 || strings.Contains(strings.ToLower(q), "sample") {
			return
		}
		stmt, err := influxql.ParseStatement(q)
		if err != nil {
			return
		}
		if _, ok := stmt.(*influxql.SelectStatement); !ok {
			return
		}
		run := func(m *scantest.Store, workers int) (string, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			res, err := collectSelect(ctx, m, q, Options{Workers: workers, MemoryBytes: 8 << 20, Now: time.Unix(1500001000, 0)})
			text := ""
			for _, r := range res {
				text += fmt.Sprint(seriesTexts(r.Series))
			}
			return text, err
		}
		a, errA := run(one, 2)
		b, errB := run(two, 1)
		for _, err := range []error{errA, errB} {
			if errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "memory") {
				return // the one may come as far as the other does not
			}
		}
		if fmt.Sprint(errA) != fmt.Sprint(errB) || a != b {
			t.Fatalf("%s:\n%.500s %v\n%.500s %v", q, a, errA, b, errB)
		}
	})
}

// A forecast charges its memory before it takes it.
func TestForecastIsCharged(t *testing.T) {
	m := limitsStore(t)
	_, err := collectSelect(t.Context(), m, "SELECT holt_winters(mean(v), 1, 300) FROM m WHERE time >= 1500000000s AND time < 1500000600s GROUP BY time(1s)", Options{MemoryBytes: 600 << 10})
	if err == nil || !strings.Contains(err.Error(), "query memory limit exceeded") {
		t.Errorf("a simplex of 750 kB in 600 KiB: %v", err)
	}
}

// TestExplainIsNotLimited: a statement that opens too many series can be explained.
func TestExplainIsNotLimited(t *testing.T) {
	m := limitsStore(t)
	stmt, err := parseSelect(m, "SELECT v FROM m")
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{MaxSelectSeries: 5}
	lines, err := Explain(t.Context(), stmt, m, opt)
	if err != nil || !slices.Contains(lines, "    └── read v::float") {
		t.Errorf("%v: %q", err, lines)
	}
	if _, err := Analyze(t.Context(), stmt, m, opt); err == nil {
		t.Error("EXPLAIN ANALYZE reads more series than are allowed")
	}
}
