package expr

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
)

func TestSplitTime(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	for _, c := range []struct {
		where    string
		min, max int64
		hasMin   bool
		hasMax   bool
		rest     string
	}{
		{"time > 5", 6, model.MaxTime, true, false, ""},
		{"time >= 5 AND time < 9 AND v > 1", 5, 8, true, true, "v > 1"},
		{"time = 5 OR time = 9", 9, 5, true, true, ""},
		{"v > 1 OR time > 4", 5, model.MaxTime, true, false, "v > 1"},
		{"5 < time", 6, model.MaxTime, true, false, ""},
		{"time > now() - 10s", 990e9 + 1, model.MaxTime, true, false, ""},
		{"time > now('+1mo') - 1000s", 31*86400e9 + 1, model.MaxTime, true, false, ""},
		{"time >= now('-1y') - 1000s", -365 * 86400e9, model.MaxTime, true, false, ""},
		{"time < 9223372036854775807", model.MinTime, model.MaxTime, false, true, ""},
		{"time > 9223372036854775807", model.MaxTime, model.MinTime, true, true, ""},
		{"time < -9223372036854775808", model.MaxTime, model.MinTime, true, true, ""},
		{"time >= '1970-01-01T00:00:01Z'", 1e9, model.MaxTime, true, false, ""},
		{"(h = 'a') AND true", model.MinTime, model.MaxTime, false, false, "h = 'a'"},
	} {
		e, err := influxql.ParseExpr(c.where)
		if err != nil {
			t.Fatal(err)
		}
		before := e.String()
		got, err := SplitTime(e, now, nil)
		if err != nil {
			t.Errorf("%s: %v", c.where, err)
			continue
		}
		rest := ""
		if got.Expr != nil {
			rest = strings.Trim(got.Expr.String(), "()")
		}
		if got.Range != (model.TimeRange{Min: c.min, Max: c.max}) || got.HasMin != c.hasMin || got.HasMax != c.hasMax || rest != c.rest {
			t.Errorf("%s: got %+v rest %q", c.where, got, rest)
		}
		if e.String() != before {
			t.Errorf("%s was changed to %s", before, e)
		}
	}
	for where, want := range map[string]string{
		"time > now('x')": "invalid operation: time and *influxql.Call are not compatible",
		"time != 5":       "invalid time comparison operator: !=",
		"time > 'junk'":   "invalid operation: time and *influxql.StringLiteral are not compatible",
		"time > v":        "invalid operation: time and *influxql.VarRef are not compatible",
		"v":               "invalid condition expression: v",
		"time > '999999'": "invalid operation: time and *influxql.StringLiteral are not compatible",
	} {
		e, err := influxql.ParseExpr(where)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := SplitTime(e, now, nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", where, err)
		}
	}
	// Months are those of the query's zone.
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := influxql.ParseExpr("time >= now('-1mo')")
	got, err := SplitTime(e, time.Date(2024, 3, 31, 22, 30, 0, 0, time.UTC), berlin) // April in Berlin, after the clocks moved
	if want := time.Date(2024, 2, 29, 23, 30, 0, 0, time.UTC).UnixNano(); err != nil || got.Range.Min != want {
		t.Errorf("got %v, %v", time.Unix(0, got.Range.Min).UTC(), err)
	}
}

// TestSplitTimeAsInfluxQL holds SplitTime to the parser's own function over
// random clauses.
func TestSplitTimeAsInfluxQL(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 5))
	var random func(depth int) string
	random = func(depth int) string {
		switch {
		case depth > 0 && rnd.IntN(4) == 0:
			return "(" + random(depth-1) + ")"
		case depth > 0 && rnd.IntN(3) > 0:
			return random(depth-1) + []string{" AND ", " OR "}[rnd.IntN(2)] + random(depth-1)
		}
		leaf := []string{
			"a = 'x'", "b !~ /y/", "f > 1 + 2", "f * 2 = 1", "true", "false", "1 = 1", "1 > 2", "(f) = 1", "time > 5", "TIME <= 7", "3 < time",
			"time > now() - 1h", "time < '2000-01-01'", "f = now()", "'a' = 'a'", "true = true", "abs(f) > 1", "time = 5", "time != 5", "v", "time > 'x'",
		}
		if rnd.IntN(10) > 0 {
			leaf = leaf[:len(leaf)-3] // few that are refused
		}
		return leaf[rnd.IntN(len(leaf))]
	}
	now := time.Unix(1e6, 0).UTC()
	text := func(e influxql.Expr) string {
		if e == nil {
			return "none"
		}
		return e.String()
	}
	refused := 0
	for range 20_000 {
		e, err := influxql.ParseExpr(random(5))
		if err != nil {
			t.Fatal(err)
		}
		clause := e.String()
		got, err := SplitTime(e, now, nil)
		want, tr, wantErr := influxql.ConditionExpr(influxql.CloneExpr(e), &influxql.NowValuer{Now: now})
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s: error %v, want %v", clause, err, wantErr)
		}
		if err != nil {
			refused++
			continue
		}
		if text(got.Expr) != text(want) || got.HasMin == tr.Min.IsZero() || got.HasMax == tr.Max.IsZero() ||
			got.HasMin && got.Range.Min != tr.Min.UnixNano() || got.HasMax && got.Range.Max != tr.Max.UnixNano() {
			t.Fatalf("%s: %s %+v, want %s %v", clause, text(got.Expr), got, text(want), tr)
		}
		if e.String() != clause {
			t.Fatalf("%s was changed to %s", clause, e)
		}
	}
	if refused == 0 || refused > 10_000 {
		t.Errorf("%d of the clauses were refused", refused)
	}
}

// TestSplitTimeLong counts what a long clause costs: dashboards send one OR for
// every host that is chosen.
func TestSplitTimeLong(t *testing.T) {
	cost := func(terms int) float64 {
		e, err := influxql.ParseExpr("time > 5 AND (" + strings.Repeat("h = 'a' OR ", terms-1) + "h = 'b')")
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(5, func() {
			if _, err := SplitTime(e, time.Unix(0, 0), nil); err != nil {
				t.Error(err)
			}
		})
	}
	if one, eight := cost(100), cost(800); eight > 10*one {
		t.Errorf("100 terms take %.0f allocations, 800 terms %.0f", one, eight)
	}
}

// TestSplitTags checks for random predicates that tags AND rest says what the
// predicate says, row by row.
func TestSplitTags(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 3))
	isField := func(r *influxql.VarRef) bool { return r.Val == "f" }
	var random func(depth int) string
	random = func(depth int) string {
		if depth > 0 && rnd.IntN(3) > 0 {
			return fmt.Sprintf("(%s %s %s)", random(depth-1), []string{"AND", "OR"}[rnd.IntN(2)], random(depth-1))
		}
		leaf := []string{"a = 'x'", "a != 'x'", "b = ''", "b != ''", "a =~ /x|y/", "b !~ /y/", "f > 1", "f = 2", "f != 0", "nosuch = ''", "'x' = b", "true", "false"}
		return leaf[rnd.IntN(len(leaf))]
	}
	typed := func(e influxql.Expr) influxql.Expr {
		influxql.WalkFunc(e, func(n influxql.Node) {
			if r, ok := n.(*influxql.VarRef); ok {
				r.Type = influxql.Tag
				if r.Val == "f" {
					r.Type = influxql.Float
				}
			}
		})
		return e
	}
	for range 3000 {
		text := random(4)
		e, err := influxql.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		typed(e)
		tags, rest := SplitTags(e, isField)
		for _, a := range []string{"", "x", "y"} {
			for _, b := range []string{"", "x", "z"} {
				var set model.Tags
				if a != "" {
					set = append(set, model.Tag{Key: "a", Value: a})
				}
				if b != "" {
					set = append(set, model.Tag{Key: "b", Value: b})
				}
				for f := range 4 {
					ev := Evaluator{Rows: 1, Lookup: func(r *influxql.VarRef) Operand {
						if r.Val == "f" {
							if f == 3 {
								return Null()
							}
							return Operand{Vector: column.Vector{Type: model.Float, Floats: []float64{float64(f)}}}
						}
						return Operand{Constant: true, Vector: column.Vector{Type: model.String, Strings: []string{set.Get(r.Val)}}}
					}}
					_, want := ev.SelectRows(e, nil)
					got := tags.Match(set)
					if got && rest != nil {
						_, got = ev.SelectRows(rest, nil)
					}
					if got != want {
						t.Fatalf("seed %d: %s with %v f=%d: tags %v rest %v says %v, want %v", seed, text, set, f, tags, rest, got, want)
					}
				}
			}
		}
	}
}
