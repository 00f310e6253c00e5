package query

import (
	"math"
	"strings"
	"testing"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// TestMoveNamesContinuousQueries renames what continuous queries use: the answer names those
// that use the old name, and no others.
func TestMoveNamesContinuousQueries(t *testing.T) {
	named := func(rename string, may func(string) bool, queries ...string) (out []string) {
		t.Helper()
		store, e := newContinuousStore(t, queries...)
		store.Create("other", "autogen")
		mustOK(t, store.Apply(t.Context(), meta.CreateContinuousQuery{
			Database: "other", Name: "far", Query: `CREATE CONTINUOUS QUERY far ON other BEGIN SELECT mean(r) INTO t FROM d..c GROUP BY time(1m) END`,
		}))
		store.Put("d", "autogen", "c,h=a", 1, map[string]scantest.Value{"r": {Type: model.Float, Bits: math.Float64bits(1)}})
		q, err := syntax.Parse(rename, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Execute(t.Context(), q, ExecuteOptions{Database: "d", MayRead: may}, func(r *result.Result) error {
			if r.Err != nil {
				t.Errorf("%s: %v", rename, r.Err)
			}
			for _, m := range r.Messages {
				if m.Level != "warning" {
					t.Errorf("%s: %v", rename, m)
				}
				name, rest, _ := strings.Cut(strings.TrimPrefix(m.Text, "continuous query "), " ")
				out = append(out, strings.Trim(name, `"`))
				if !strings.Contains(rest, "uses the old name") {
					t.Errorf("%s: %s", rename, m.Text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	queries := []string{
		`SELECT mean(r) INTO t FROM c GROUP BY time(1m)`,
		`SELECT mean(x) INTO t FROM c WHERE h = 'a' GROUP BY time(1m)`,
		`SELECT mean(r) INTO t FROM z GROUP BY time(1m), h`,
		`SELECT mean(m) INTO t FROM (SELECT max(r) AS m FROM c GROUP BY h) GROUP BY time(1m)`,
		`SELECT mean(x) INTO c FROM z GROUP BY time(1m)`,
		`SELECT mean(r) INTO t FROM other..c GROUP BY time(1m)`,
		`SELECT mean(x) INTO t FROM /^c/ GROUP BY time(1m)`,
		`SELECT mean(x) INTO t FROM /^c$/ GROUP BY time(1m)`,
	}
	for _, c := range []struct {
		rename, want string
		may          func(string) bool
	}{
		{`ALTER MEASUREMENT c RENAME FIELD r TO rr`, "q0 q3 far", nil},
		{`ALTER MEASUREMENT c RENAME FIELD r TO rr`, "q0 q3", func(db string) bool { return db == "d" }},
		{`ALTER MEASUREMENT c RENAME TAG h TO host`, "q1 q3", nil},
		{`ALTER MEASUREMENT c RENAME TO cc`, "q0 q1 q3 q4 q7 far", nil},
		{`UPDATE c SET h = 'b'`, "", nil},
		{`UPDATE c SET h = 'b' WHERE h = 'none'`, "", nil},
	} {
		if got := strings.Join(named(c.rename, c.may, queries...), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.rename, got, c.want)
		}
	}
}
