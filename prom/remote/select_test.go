package remote

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tsdbd/prom"
)

// TestStatement holds what matchers choose, as the SELECT of a remote read.
func TestStatement(t *testing.T) {
	const times = `time >= '1970-01-01T00:00:01Z' AND time <= '1970-01-01T00:00:02Z'`
	f := func(want string, matchers ...Matcher) {
		t.Helper()
		stmt, err := (&Query{Start: 1000, End: 2000, Matchers: matchers}).Statement("d", "p")
		got := fmt.Sprint(err)
		if err == nil {
			from, rest, _ := strings.Cut(strings.TrimPrefix(stmt.String(), "SELECT value::float FROM d.p."), " WHERE ")
			rest, found := strings.CutSuffix(rest, " GROUP BY *")
			if !found {
				t.Errorf("not grouped: %s", stmt)
			}
			got = from + " " + strings.TrimPrefix(strings.TrimSuffix(rest, times), " ")
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%v: %s, want %s", matchers, got, want)
		}
	}
	f(`/.*/`)
	f(`up`, Matcher{Equal, prom.NameLabel, "up"})
	f(`/^(?:up|down)$/`, Matcher{Match, prom.NameLabel, "up|down"})
	f(`up job::tag = 'a' AND`, Matcher{Equal, prom.NameLabel, "up"}, Matcher{Equal, "job", "a"})
	f(`up job::tag != 'a' AND host::tag =~ /^(?:b.)$/ AND x::tag !~ /^(?:)$/ AND`,
		Matcher{NotEqual, "job", "a"}, Matcher{Equal, prom.NameLabel, "up"}, Matcher{Match, "host", "b."}, Matcher{NotMatch, "x", ""})
	f(`/.*/ __name__::tag != 'up' AND`, Matcher{NotEqual, prom.NameLabel, "up"})
	f(`up __name__::tag =~ /^(?:u.)$/ AND`, Matcher{Equal, prom.NameLabel, "up"}, Matcher{Match, prom.NameLabel, "u."})
	f(`/^(?:u.)$/ __name__::tag = 'up' AND`, Matcher{Match, prom.NameLabel, "u."}, Matcher{Equal, prom.NameLabel, "up"})
	f("a metric has a name", Matcher{Equal, prom.NameLabel, ""})
	f("unknown match type: 4", Matcher{4, "a", "b"})
	f("error parsing regexp: missing closing ): `^(?:()$`", Matcher{Match, "a", "("})
	f("too many matchers", make([]Matcher, maxMatchers+1)...)
	if _, err := Select([]Matcher{{Match, "a", "(x{1000}){1000}"}}); err == nil {
		t.Error("an expression of any size is taken")
	}
	stmt, err := (&Query{Start: math.MinInt64, End: math.MaxInt64}).Statement("d", "")
	if err != nil || !strings.Contains(stmt.String(), `time >= '1677-09-21T00:12:43.146Z' AND time <= '2262-04-11T23:47:16.854Z'`) {
		t.Errorf("%v %v", stmt, err)
	}
}
