package downsample

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/query"
	"tsdbd/query/downsample"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// answers are statements that have the same answer when the older half of raw has expired
// and a downsample has it. lost are those that need its rows; the answer then says why they
// are missing.
var (
	answered = []string{
		"SELECT count(v), sum(v), mean(v), max(v), min(v) FROM raw.m WHERE $T GROUP BY time(1d)",
		"SELECT count(v), mean(v) FROM raw.m WHERE $T GROUP BY time(6h) fill(previous)",
		"SELECT mean(v) FROM raw.m WHERE $T GROUP BY time(1mo), h",
		"SELECT mean(v) FROM raw.m WHERE $T GROUP BY time(1d) tz('Europe/Berlin')",
		"SELECT last(v) FROM raw.m WHERE $T GROUP BY time(1d), *",
		"SELECT first(v), last(n) FROM raw.m WHERE $T GROUP BY h",
		"SELECT last(v), first(v), max(n) FROM raw.m WHERE h = 'h1'",
		"SELECT mean(v), count(v) FROM raw.m",
		"SELECT count(v) FROM raw.m",
		"SELECT derivative(mean(v), 1h) FROM raw.m WHERE $T GROUP BY time(1d)",
		"SELECT moving_average(mean(v), 3) FROM raw.m WHERE $T GROUP BY time(1d)",
		"SELECT mean(v) + mean(n) FROM raw.m WHERE $T GROUP BY time(1d)",
		"SELECT max(a) FROM (SELECT mean(v) AS a FROM raw.m WHERE $T GROUP BY time(1h), h) GROUP BY time(1d)",
		"SELECT mean(*) FROM raw.m WHERE $T GROUP BY time(1d)",
		"SELECT max(/v|n/) FROM raw.m WHERE $T GROUP BY time(1d), * SLIMIT 2",
		"SELECT mean(v) FROM raw./m|old/ WHERE $T GROUP BY time(1d)",
		"SELECT mean(v) FROM raw.m, raw.old WHERE $T GROUP BY time(1d), * ORDER BY time DESC LIMIT 3",
		"SELECT spread(v) FROM raw.m WHERE $T GROUP BY time(1d)",
		"SELECT mean(v) FROM raw.m WHERE $T AND h =~ /h[12]/ GROUP BY time(1d) LIMIT 2",
		"SELECT sum(v) FROM raw.m WHERE time >= 5400s AND time < 36h GROUP BY time(12h)", // ends in windows: 1h on
		"SELECT count(*), sum(*) FROM raw.old",
	}
	lost = map[string]string{
		"SELECT percentile(v, 95) FROM raw.m WHERE $T GROUP BY time(1d)":        "it does not keep percentile",
		"SELECT stddev(v) FROM raw.m WHERE $T GROUP BY time(1d)":                "stddev() needs all rows",
		"SELECT mean(v) FROM raw.m WHERE $T GROUP BY time(30m)":                 "windows of GROUP BY time are not whole windows of 1h",
		"SELECT mean(v) FROM raw.m WHERE v > 5 AND $T GROUP BY time(1d)":        "a condition is on a field",
		"SELECT integral(v) FROM raw.m WHERE $T GROUP BY time(1d)":              "integral(v::float) needs all rows",
		"SELECT max(v), h FROM raw.m WHERE $T GROUP BY time(1d)":                "other columns of the rows are asked for",
		"SELECT mean(v::integer) FROM raw.m WHERE $T GROUP BY time(1d)":         "the type of a field is asked for",
		"SELECT max(v), percentile(v, 5) FROM raw.m WHERE $T GROUP BY time(1d)": "it does not keep percentile",
		"SELECT count(distinct(v)) FROM raw.m WHERE $T GROUP BY time(1d)":       "count() needs all rows",
	}
)

// TestExpired: aggregates of rows that expired come from downsamples as if the rows were
// still there.
func TestExpired(t *testing.T) {
	for _, use := range []downsample.Use{downsample.Expired, downsample.Complete} {
		h := &harness{t: t, use: use}
		h.begin()
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY shadow ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; " +
			"CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; CREATE RETENTION POLICY days ON d DURATION INF REPLICATION 1 SHARD DURATION 7d")
		const days = 6
		var lines strings.Builder
		for at := range days * 24 * 6 {
			for s := range 3 {
				fmt.Fprintf(&lines, "m,h=h%d v=%d.5,n=%di %d\n", s, (at*7+s*13)%97, (at+s)%50, at*600+s)
			}
			if at < 24*6 {
				fmt.Fprintf(&lines, "old,h=h1 v=%d,k=%di %d\n", at%11, at%7, at*600)
			}
		}
		h.now = time.Unix(0, 0).Add(days * 24 * time.Hour)
		for _, policy := range []string{"raw", "shadow"} {
			if err := h.load(policy, lines.String()); err != nil {
				t.Fatal(err)
			}
		}
		h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS mean, max, min, first, last; CREATE DOWNSAMPLE ON d FROM raw INTO days EVERY 1d AS mean, max, min")
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		policy, err := h.store.Catalog().RetentionPolicy("d", "raw")
		if err != nil {
			t.Fatal(err)
		}
		h.must("ALTER RETENTION POLICY raw ON d DURATION 3d")
		for _, g := range policy.ShardGroups[:days/2] {
			if err := h.store.Apply(t.Context(), meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: g.ID, IfDuration: 72 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		h.rewrite = true
		whole := fmt.Sprintf("time >= 0 AND time < %dh", days*24)
		for _, q := range answered {
			q = strings.ReplaceAll(q, "$T", whole)
			want := rounded(h.ask(strings.ReplaceAll(strings.ReplaceAll(q, "raw.", "shadow."), "5400s", "3600s")))
			h.notes = nil
			got := rounded(h.ask(q))
			if got != want || len(h.notes) == 0 {
				t.Errorf("%s: %s\n%s\ngot\n%s\nwant\n%s", use, q, h.notes, got, want)
			}
		}
		for q, why := range lost {
			h.notes = nil
			h.ask(strings.ReplaceAll(q, "$T", whole))
			told := ""
			parsed, err := syntax.Parse(strings.ReplaceAll(q, "$T", whole), nil)
			if err != nil {
				t.Fatal(err)
			}
			opt := query.ExecuteOptions{Database: "d", Unused: func(text string) { told += text }}
			if err := h.executor.Execute(t.Context(), parsed, opt, func(r *result.Result) error {
				if len(r.Messages) > 0 {
					t.Errorf("%s: messages without hints: %v", q, r.Messages)
				}
				return r.Err
			}); err != nil || !strings.Contains(told, why) {
				t.Errorf("%s: told %q, %v", q, told, err)
			}
			if notes := strings.Join(h.notes, "\n"); !strings.Contains(notes, "are lost, and the downsample") || !strings.Contains(notes, why) {
				t.Errorf("%s: %s\n%s\nwant %s", use, q, notes, why)
			}
		}
	}
}
