package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
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
		res, err := collectSelect(context.Background(), m, q, Options{})
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		var out []string
		for _, r := range res {
			out = append(out, seriesTexts(r.Series)...)
		}
		return out
	}
	some, rounds := 0, testseed.Rounds(600)
	for range rounds {
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
	if some < rounds {
		t.Errorf("only %d of the conditions hold for some rows", some)
	}
}
