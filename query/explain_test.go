package query

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	store := sampleStore(t)
	e := newExecutor(store)
	for _, c := range []struct{ q, want string }{
		{`EXPLAIN SELECT v FROM cpu`, `(QUERY PLAN): EXPRESSION: <nil>; AUXILIARY FIELDS: v::float; NUMBER OF SHARDS: 2; NUMBER OF SERIES: 3; CACHED VALUES: 3; NUMBER OF FILES: 2; NUMBER OF BLOCKS: 3; SIZE OF BLOCKS: 24`},
		{
			`EXPLAIN SELECT mean(v), max(w) FROM cpu WHERE host = 'b'`,
			`(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 1; NUMBER OF SERIES: 1; CACHED VALUES: 1; NUMBER OF FILES: 1; NUMBER OF BLOCKS: 1; SIZE OF BLOCKS: 8; ; EXPRESSION: max(w::integer); NUMBER OF SHARDS: 1; NUMBER OF SERIES: 1; CACHED VALUES: 1; NUMBER OF FILES: 1; NUMBER OF BLOCKS: 1; SIZE OF BLOCKS: 8`,
		},
		{
			`EXPLAIN SELECT derivative(mean(v)) FROM cpu WHERE time > 1500000000s AND time < 1600000001s GROUP BY time(1h)`,
			`(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 1; NUMBER OF SERIES: 1; CACHED VALUES: 1; NUMBER OF FILES: 1; NUMBER OF BLOCKS: 1; SIZE OF BLOCKS: 8`,
		},
		{
			`EXPLAIN SELECT sum(m) FROM (SELECT mean(v) AS m FROM cpu GROUP BY host)`,
			`(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 2; NUMBER OF SERIES: 3; CACHED VALUES: 3; NUMBER OF FILES: 2; NUMBER OF BLOCKS: 3; SIZE OF BLOCKS: 24`,
		},
		{`EXPLAIN SELECT v FROM nosuch`, `(QUERY PLAN): `},
		{`EXPLAIN SELECT foo(v) FROM cpu`, `error: undefined function foo()`},
		{`EXPLAIN ANALYZE SELECT foo(v) FROM cpu`, `error: undefined function foo()`},
	} {
		// The operators follow the lines of InfluxDB. The scripts have them.
		got, tree, _ := strings.Cut(strings.Join(runText(t, e, ExecuteOptions{Database: "db"}, c.q), " & "), "; ; operators; ")
		if got != c.want || strings.Contains(got, "EXPRESSION") != strings.HasPrefix(tree, "└── SELECT") {
			t.Errorf("%s\n got %s\nwant %s", c.q, got, c.want)
		}
	}
	got := runText(t, e, ExecuteOptions{Database: "db"}, `EXPLAIN ANALYZE SELECT v FROM cpu`)[0]
	if !strings.HasPrefix(got, "(EXPLAIN ANALYZE): .; ") || !strings.Contains(got, "total_time: ") {
		t.Errorf("EXPLAIN ANALYZE: %s", got)
	}
	if store.Views() != 0 {
		t.Errorf("%d views were not released", store.Views())
	}
}

// TestExplainAnalyze: the tree tells what was read, and how.
func TestExplainAnalyze(t *testing.T) {
	c, e := newContinuousStore(t)
	c.shardEachDay(t)
	c.ChunkRows = 60
	c.put(t, 0, 1)
	for _, step := range []struct {
		q    string
		want []string // lines, times cut off
	}{
		{
			"EXPLAIN ANALYZE SELECT sum(v) FROM m WHERE time >= 0 AND time < 2d GROUP BY time(1h)",
			[]string{
				".", "└── select",
				"    ├── SELECT sum(v) FROM d.autogen.m WHERE time >= 0 AND time < 2d GROUP BY time(1h)",
				"    ├── series: 1", "    ├── rows: 48", "    ├── planning_time:", "    ├── execution_time:", "    ├── total_time:",
				"    ├── operators",
				"    │   └── SELECT sum(v::float) FROM d.autogen.m GROUP BY time(1h): 1 series, 48 rows",
				"    │       ├── fold sum(v::float): 2 series, 48 chunks (0 decoded, 48 by statistics), 2880 rows, 0 values decoded, 48 blocks of 23040 bytes in 2 files, 2 cached values, in storage",
				"    │       │   ├── 2 shards, 2 series, 1 group",
				"    │       │   ├── 48 windows",
				"    │       │   └── chunks inside one window: by statistics",
				"    │       ├── sum(v::float):", "    │       └── join, project:",
				"    └── storage",
				"        ├── shard 1, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: 1 series, 24 chunks (0 decoded, 24 by statistics), 1440 rows, 0 values decoded, 24 blocks of 11520 bytes in 1 files, 1 cached values, in storage",
				"        ├── shard 2, 1970-01-02T00:00:00Z to 1970-01-02T23:59:59Z: 1 series, 24 chunks (0 decoded, 24 by statistics), 1440 rows, 0 values decoded, 24 blocks of 11520 bytes in 1 files, 1 cached values, in storage",
				"        └── 2 shards: 2 series, 48 chunks (0 decoded, 48 by statistics), 2880 rows, 0 values decoded, 48 blocks of 23040 bytes in 2 files, 2 cached values, in storage",
			},
		},
		{
			"EXPLAIN ANALYZE SELECT max(x) FROM (SELECT v * 2 AS x FROM m WHERE v > 1400 AND time < 1d)",
			[]string{
				"    ├── series: 1", "    ├── rows: 1",
				"    │   └── SELECT max(x::float) FROM (SELECT v::float * 2 AS x FROM d.autogen.m WHERE v::float > 1400): 1 series, 1 rows",
				"    │       ├── fold max(x::float): 1 series, 24 chunks (1 decoded, 23 by statistics), 1440 rows, 60 values decoded, 24 blocks of 11520 bytes in 1 files, 1 cached values, in storage",
				"    │       │   └── chunks inside one window: decoded, computed columns have no statistics",
				"    │       └── SELECT v::float * 2 AS x FROM d.autogen.m WHERE v::float > 1400: its rows are read above",
				"        └── 1 shards: 1 series, 24 chunks (1 decoded, 23 by statistics), 1440 rows, 60 values decoded, 24 blocks of 11520 bytes in 1 files, 1 cached values, in storage",
			},
		},
	} {
		text := extendedRun(t, t.Context(), e, ExecuteOptions{Database: "d"}, step.q)[0]
		var lines []string
		for _, line := range strings.Split(strings.TrimPrefix(text, "(EXPLAIN ANALYZE): "), "; ") {
			lines = append(lines, regexp.MustCompile(`([:,]) [0-9.]+(ns|µs|ms|s)\b,?`).ReplaceAllString(line, "$1"))
		}
		for _, want := range step.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%s\nhas no line %q:\n%s", step.q, want, strings.Join(lines, "\n"))
			}
		}
	}
}
