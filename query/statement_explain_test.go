package query

import (
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/scan"
)

func TestExplain(t *testing.T) {
	store := sampleStore(t)
	e := newExecutor(store)
	for _, c := range []struct{ q, want string }{
		{`EXPLAIN SELECT v FROM cpu`, `(QUERY PLAN): EXPRESSION: <nil>; AUXILIARY FIELDS: v::float; NUMBER OF SHARDS: 2; NUMBER OF SERIES: 3`},
		{
			`EXPLAIN SELECT mean(v), max(w) FROM cpu WHERE host = 'b'`,
			`(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 1; NUMBER OF SERIES: 1; ; EXPRESSION: max(w::integer); NUMBER OF SHARDS: 1; NUMBER OF SERIES: 1`,
		},
		{
			`EXPLAIN SELECT derivative(mean(v)) FROM cpu WHERE time > 1500000000s AND time < 1600000001s GROUP BY time(1h)`,
			`(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 1; NUMBER OF SERIES: 1`,
		},
		{
			`EXPLAIN SELECT sum(m) FROM (SELECT mean(v) AS m FROM cpu GROUP BY host)`,
			`(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 2; NUMBER OF SERIES: 3`,
		},
		{`EXPLAIN SELECT v FROM nosuch`, `(QUERY PLAN): `},
		{`EXPLAIN SELECT foo(v) FROM cpu`, `error: undefined function foo()`},
		{`EXPLAIN ANALYZE SELECT foo(v) FROM cpu`, `error: undefined function foo()`},
	} {
		if got := strings.Join(runText(t, e, ExecuteOptions{Database: "db"}, c.q), " & "); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.q, got, c.want)
		}
	}
	got := runText(t, e, ExecuteOptions{Database: "db"}, `EXPLAIN ANALYZE SELECT v FROM cpu`)[0]
	if !strings.HasPrefix(got, "(EXPLAIN ANALYZE): .; ") || !strings.Contains(got, "total_time: ") {
		t.Errorf("EXPLAIN ANALYZE: %s", got)
	}
	if store.views != 0 {
		t.Errorf("%d views were not released", store.views)
	}
}

// costlyStore has shards that tell costs.
type costlyStore struct{ *fakeStore }

type costlyView struct{ scan.View }

type costlyShard struct{ scan.Shard }

func (s costlyStore) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := s.fakeStore.View(db, rp, r)
	if err != nil {
		return nil, err
	}
	return costlyView{v}, nil
}

func (v costlyView) Shards() []scan.Shard {
	var out []scan.Shard
	for _, s := range v.View.Shards() {
		out = append(out, costlyShard{s})
	}
	return out
}

func (costlyShard) Cost(req scan.Request) (scan.Cost, error) {
	n := int64(len(req.Fields))
	return scan.Cost{CachedValues: n, Files: 1, Blocks: 10 * n, Bytes: 100 * n}, nil
}

func TestExplainCosts(t *testing.T) {
	store := sampleStore(t)
	e := New(Options{Storage: costlyStore{store}, Admin: store})
	got := runText(t, e, ExecuteOptions{Database: "db"}, `EXPLAIN SELECT mean(v) FROM cpu`)[0]
	want := `(QUERY PLAN): EXPRESSION: mean(v::float); NUMBER OF SHARDS: 2; NUMBER OF SERIES: 3; CACHED VALUES: 2; NUMBER OF FILES: 2; NUMBER OF BLOCKS: 20; SIZE OF BLOCKS: 200`
	if got != want {
		t.Errorf("got %s", got)
	}
}
