package query

import (
	"context"
	"strings"
	"testing"

	"tsdbd/meta"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
)

// hintStore is sampleStore with names that are easy to confuse.
func hintStore(t *testing.T) *scantest.Store {
	store := sampleStore(t)
	mustOK(t, store.Apply(t.Context(), meta.CreateDatabase{Name: "empty"}))
	store.Write(t, "db", "", "s", "cpu,host=Srv-1 value=2,s=\"1\",ok=true 1000000000\ncpu,host=b,dc=n late=1 1600000000\ntwice,host=a host=\"x\",v=1 1000000000")
	return store
}

// TestHints: an answer without rows says why.
func TestHints(t *testing.T) {
	e := newExecutor(hintStore(t))
	for _, c := range []struct{ q, want string }{
		// measurements
		{`SELECT v FROM cpuu`, `info: measurement "cpuu" does not exist in db.autogen; did you mean "cpu"?`},
		{`SELECT v FROM ucp`, `info: measurement "ucp" does not exist in db.autogen; did you mean "up"?`},
		{`SELECT v FROM CPU`, `info: measurement "CPU" does not exist in db.autogen; did you mean "cpu"?`},
		{`SELECT v FROM old`, `info: measurement "old" does not exist in db.autogen`},
		{`SELECT v FROM disk`, `info: measurement "disk" does not exist in db.autogen`},
		{`SELECT v FROM nothing_like_it`, `info: measurement "nothing_like_it" does not exist in db.autogen`},
		{`SELECT v FROM empty..x`, `info: measurement "x" does not exist in empty.autogen, which has no measurements`},
		{`SELECT v FROM /^z/`, `info: no measurement in db.autogen matches /^z/`},
		{`SELECT v FROM a1, b2`, `info: measurement "a1" does not exist in db.autogen | info: measurement "b2" does not exist in db.autogen`},
		{`SELECT mean(v) FROM (SELECT v FROM cpuu)`, `info: measurement "cpuu" does not exist in db.autogen; did you mean "cpu"?`},
		// select lists
		{`SELECT valeu FROM cpu`, `info: "valeu" is no field or tag of "cpu"; did you mean "value"?`},
		{`SELECT mean(zzzz) FROM cpu`, `info: "zzzz" is no field or tag of "cpu"`},
		{`SELECT host FROM cpu`, `info: only tags of "cpu" are selected: rows need a field, such as "late"`},
		{`SELECT count(host) FROM cpu`, `info: "host" is a tag of "cpu": functions take fields`},
		{`SELECT v::tag FROM cpu`, `info: "v" is a field of "cpu", not a tag`},
		// conditions
		{`SELECT v FROM cpu WHERE hots = 'a'`, `info: "hots" is no field or tag of "cpu"; did you mean "host"?`},
		{`SELECT v FROM cpu WHERE host = "a"`, `info: "a" without single quotes is the name of a column, which "cpu" does not have: a text is "host" = 'a'`},
		{`SELECT v FROM cpu WHERE "a" = host`, `info: "a" without single quotes is the name of a column, which "cpu" does not have: a text is "host" = 'a'`},
		{`SELECT v FROM cpu WHERE host = 'srv-1'`, `info: tag "host" of "cpu" has no value 'srv-1'; did you mean 'Srv-1'?`},
		{`SELECT v FROM cpu WHERE (host = 'a' AND az = 'xxxxxxx')`, `info: tag "az" of "cpu" has no value 'xxxxxxx'`},
		{`SELECT v FROM cpu WHERE host = 'it\'s'`, `info: tag "host" of "cpu" has no value 'it\'s'`},
		{`SELECT v FROM cpu WHERE host = 'p' OR host = 'qqqq'`, `info: tag "host" of "cpu" has no value 'p'; did you mean 'a'?`},
		{`SELECT v FROM cpu WHERE hots IN ('qqqq', 'rrrr')`, `info: "hots" is no field or tag of "cpu"; did you mean "host"?`},
		{`SELECT v FROM cpu WHERE host =~ /q/`, `info: no value of tag "host" of "cpu" matches /q/`},
		{`SELECT v FROM cpu WHERE host = 1`, `info: tag "host" of "cpu" is compared with 1: the values of tags are texts, such as '1'`},
		{`SELECT v FROM cpu WHERE v = 'a'`, `info: field "v" of "cpu" holds values of type float, and is compared with 'a'`},
		{`SELECT v FROM cpu WHERE s = 1`, `info: field "s" of "cpu" holds values of type string, and is compared with 1`},
		{`SELECT v FROM cpu WHERE ok > 1`, `info: field "ok" of "cpu" holds values of type boolean, and is compared with 1`},
		{`SELECT v FROM cpu WHERE v =~ /1/`, `info: field "v" of "cpu" holds values of type float, and is compared with /1/`},
		{`SELECT v FROM cpu WHERE v = true`, `info: field "v" of "cpu" holds values of type float, and is compared with true`},
		{`SELECT v FROM cpu WHERE v::tag = '1'`, `info: "v" is a field of "cpu", not a tag`},
		{`SELECT v FROM twice WHERE host = 'a'`, `info: "host" is a field and a tag of "twice": the condition means the field, "host"::tag is the tag`},
		{`SELECT v FROM cpu WHERE az = 'x' AND host = 'b'`, `info: no series of "cpu" has all tags of the condition`},
		{`SELECT v FROM (SELECT v FROM cpu WHERE host = 'srv-1')`, `info: tag "host" of "cpu" has no value 'srv-1'; did you mean 'Srv-1'?`},
		// times
		{
			`SELECT v FROM cpu WHERE time > 1700000000s`,
			`info: "cpu" has no rows in the time range of the query: the oldest is of 2001-09-09T01:46:40Z, the newest of 2020-09-13T12:26:40Z`,
		},
		{
			`SELECT v FROM cpu WHERE time < 1600000000`,
			`info: "cpu" has no rows in the time range of the query: the oldest is of 2001-09-09T01:46:40Z, the newest of 2020-09-13T12:26:40Z; a time without a unit is in nanoseconds`,
		},
		{
			`SELECT v FROM cpu WHERE time > 1100000000s AND time < 1200000000s`,
			`info: "cpu" has no rows in the time range of the query: the oldest is of 2001-09-09T01:46:40Z, the newest of 2020-09-13T12:26:40Z`,
		},
		{
			`SELECT v FROM cpu WHERE host = 'Srv-1' AND time > 1500000000s`,
			`info: "cpu" has no rows with the tags of the condition in the time range of the query: the oldest is of 2001-09-09T01:46:40Z, the newest of 2001-09-09T01:46:40Z`,
		},
		{`SELECT v FROM cpu WHERE time > 1600000000s AND time < 1500000000s`, `info: the time range of the query is empty: it ends before it begins`},
		// no reason is known
		{`SELECT v FROM cpu WHERE v > 100`, ``},
		{`SELECT v FROM cpu WHERE host != 'a' AND v = 100`, ``},
		{`SELECT v FROM cpu OFFSET 100`, ``},
		// no other messages
		{`SELECT v FROM up`, `up(time v): 1000000000000000000 1`},
		{`SELECT v FROM up, cpuu`, `up(time v): 1000000000000000000 1`},
		{`SHOW TAG VALUES FROM cpuu WITH KEY = host`, ``},
		{`EXPLAIN SELECT v FROM cpuu`, ``},
	} {
		got := runText(t, e, ExecuteOptions{Database: "db", Hints: true}, c.q)
		if strings.HasPrefix(c.q, "EXPLAIN") {
			if strings.Contains(got[0], "info: ") {
				t.Errorf("%s: %q", c.q, got)
			}
			continue
		}
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.q, got, c.want)
		}
	}
}

// TestNoHints: an answer has no hints unless they are asked for, and nothing looks for them.
func TestNoHints(t *testing.T) {
	store := hintStore(t)
	e := newExecutor(store)
	views := 0
	store.Viewing = func() { views++ }
	if got := runText(t, e, ExecuteOptions{Database: "db"}, `SELECT v FROM cpuu`); len(got) != 1 || got[0] != "" || views != 1 {
		t.Errorf("%q, %d views", got, views)
	}
}

// TestHintsCostNothingElse: an answer that has rows, one that is written INTO a
// measurement, and a continuous query open what they read and nothing more.
func TestHintsCostNothingElse(t *testing.T) {
	store := hintStore(t)
	e := New(Options{Storage: store, Admin: store, Into: func(context.Context, *result.IntoBatch) error { return nil }})
	views := 0
	store.Viewing = func() { views++ }
	for _, c := range []struct {
		q    string
		want int
	}{
		{`SELECT v FROM cpu`, 1},
		{`SELECT v FROM cpu, cpuu`, 1},
		{`SELECT v INTO x FROM cpuu`, 1},
		{`EXPLAIN SELECT v FROM cpuu`, 1},
		{`SELECT v FROM cpu WHERE host = 'q'`, 2},
	} {
		views = 0
		got := runText(t, e, ExecuteOptions{Database: "db", Hints: true}, c.q)
		if views != c.want {
			t.Errorf("%s: %d views, want %d: %q", c.q, views, c.want, got)
		}
		if store.Views() != 0 {
			t.Errorf("%s: %d views are not released", c.q, store.Views())
		}
	}
}
