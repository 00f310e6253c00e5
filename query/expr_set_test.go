package query

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan/scantest"
)

// TestSetsLikeComparisons compares IN and NOT IN with the comparisons they
// stand for, over columns of all types, tags, nulls, and subqueries.
func TestSetsLikeComparisons(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 4))
	m := scantest.New()
	m.Create("d", "autogen")
	var lines strings.Builder
	for i := range 200 {
		fields := []string{
			fmt.Sprintf("f=%g", float64(r.IntN(8))/2), fmt.Sprintf("i=%di", r.IntN(5)-1), fmt.Sprintf("u=%du", r.IntN(4)),
			fmt.Sprintf("s=\"%s\"", []string{"", "a", "b", "ab"}[r.IntN(4)]), fmt.Sprintf("b=%t", r.IntN(2) == 0),
		}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		fmt.Fprintf(&lines, "m%s n=%di,%s %d\n", []string{"", ",h=a", ",h=b", ",h=ab"}[r.IntN(4)], i, strings.Join(fields[:1+r.IntN(5)], ","), i)
	}
	m.Write(t, "d", "", "s", lines.String())
	literals := []string{"''", "'a'", "'b'", "'zz'", "/^a/", "/b$/", "0", "1", "-1", "2", "18446744073709551615", "0.5", "1.0", "-1.0", "true", "false"}
	rows := func(q string) []string {
		t.Helper()
		res, err := collectSelect(context.Background(), m, q, SelectOptions{})
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		var out []string
		for _, r := range res {
			out = append(out, seriesTexts(r.Series)...)
		}
		return out
	}
	some := 0
	for range 600 {
		ref := []string{"f", "i", "u", "s", "b", "h", "missing"}[r.IntN(7)]
		members := make([]string, 1+r.IntN(4))
		for i := range members {
			members[i] = literals[r.IntN(len(literals))]
		}
		not, op, join := "", "= =~", " OR "
		if r.IntN(2) == 0 {
			not, op, join = "NOT ", "!= !~", " AND "
		}
		ops := strings.Fields(op)
		var long []string
		for _, x := range members {
			o := ops[0]
			if x[0] == '/' {
				o = ops[1]
			}
			long = append(long, ref+" "+o+" "+x)
		}
		for _, form := range []string{
			"SELECT n FROM m WHERE %s", "SELECT n FROM m WHERE %s AND n > 50", "SELECT n FROM m WHERE n < 20 OR %s",
			"SELECT n FROM (SELECT n, f, i, u, s, b, h FROM m) WHERE %s", "SELECT count(n) FROM m WHERE %s GROUP BY h",
		} {
			got := rows(fmt.Sprintf(form, ref+" "+not+"IN ("+strings.Join(members, ", ")+")"))
			want := rows(fmt.Sprintf(form, "("+strings.Join(long, join)+")"))
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: "+form+"\n got %q\nwant %q", seed, ref+" "+not+"IN ("+strings.Join(members, ", ")+")", got, want)
			}
			if len(want) > 1 {
				some++
			}
		}
	}
	if some < 500 {
		t.Errorf("only %d of the conditions hold for some rows", some)
	}
}

// parseBytes returns what reading a text allocates.
func parseBytes(t *testing.T, text string, refused bool) uint64 {
	t.Helper()
	return allocated(func() {
		if _, err := Parse(text, nil); (err != nil) != refused {
			t.Fatalf("%.100s: %v", text, err)
		}
	})
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSetsAreLinear: a long name before a long list, and many lists, cost
// memory by the length of the text.
func TestSetsAreLinear(t *testing.T) {
	for _, f := range []func(n int) string{
		func(n int) string {
			return `SELECT v FROM m WHERE "` + strings.Repeat("n", n) + `" IN (1` + strings.Repeat(",1", n) + ")"
		},
		func(n int) string {
			return "SELECT v FROM m WHERE " + strings.Repeat("h IN ('i0') OR ", n/100) + " h NOT IN (1" + strings.Repeat(",'i1'", n) + ")"
		},
		func(n int) string {
			return "SELECT v FROM m" + strings.Repeat(";SELECT mean(v) FROM m GROUP BY h HAVING mean(v) IN (1)", n/50)
		},
	} {
		small, large := parseBytes(t, f(2000), false), parseBytes(t, f(8000), false)
		if large > 8*small || large > 2000*8000 {
			t.Errorf("%.60s: %d bytes, for a text of four times the length %d", f(1), small, large)
		}
	}
}

// TestRefusedTextsAreLinear: a slip at the end of many statements costs by
// their number.
func TestRefusedTextsAreLinear(t *testing.T) {
	for _, statement := range []string{
		"SELECT v FROM m LIMIT 1;", "SELECT v FROM m WHERE h IN ('a');", "SHOW CARDINALITY;",
		"SELECT mean(v) FROM m GROUP BY h HAVING mean(v) > 1;", "SELECT mean(v) FROM m GROUP BY time(1mo) -- a comment\n;",
	} {
		for _, slip := range []string{"SELECT v FRM m", "SELECT v FROM m WHERE h IN ('a') AND", "SHOW CARDINALITY LIMIT x"} {
			small := parseBytes(t, strings.Repeat(statement, 500)+slip, true)
			large := parseBytes(t, strings.Repeat(statement, 2000)+slip, true)
			if large > 6*small {
				t.Errorf("%s%s: %d bytes, for four times the statements %d", statement, slip, small, large)
			}
		}
	}
	// The place of a slip is that in the whole text.
	for _, c := range []struct{ text, want string }{
		{"SHOW DATABASES;\n SELECT v FROM m WHERE h IN ('a') AND", "found EOF, expected identifier, string, number, bool at line 2, char 39"},
		{"SHOW DATABASES;\r\nSHOW CARDINALITY LIMIT x", "found x, expected integer at line 2, char 24"},
		{"SHOW USERS; SELECT mean(v) FROM m GROUP BY h HAVING mean(v) >", "HAVING mean(v) >: found EOF, expected identifier, string, number, bool at line 1, char 62"},
		{"SHOW CARDINALITY; SELECT v > 1 FROM m", grammarError("SHOW CARDINALITY")},
		{"SELECT v FROM m WHERE h IN ('a'); SELECT v > 1 FROM m WHERE h IN ('b')", "invalid operator > in SELECT clause at line 1, char 42; operator is intended for WHERE clause"},
	} {
		if _, err := Parse(c.text, nil); err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}
