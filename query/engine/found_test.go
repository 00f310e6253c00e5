package engine

import (
	"context"
	"slices"
	"testing"

	"tsdbd/model/scan/scantest"
)

// TestSelectFound holds what generated queries, asked of an InfluxDB as well,
// found to be different.
func TestSelectFound(t *testing.T) {
	m := scantest.New()
	m.Create("d", "autogen")
	m.Write(t, "d", "", "s", `m,h=a i=1i,f=1 0
m,h=a i=2i,f=3 600
m,h=a i=1i,f=2 1200
m i=3i 1800
m i=4i 3600
n s="",i=1i 0
n,h=x s="x",i=2i 1
n,h=x s="",i=3i 2`)
	for _, c := range []struct {
		q    string
		want []string
	}{
		// fill(number) is cut to the type of the function also for a series without values.
		{`SELECT count(i), count(distinct(f)), first(f) FROM m WHERE time >= 0 AND time < 2h AND h = '' GROUP BY time(1h) fill(2.9)`, []string{"m[] [time count count_1 first] 2", "0 1 2 2.9 ", "3600000000000 1 2 2.9 "}},
		{`SELECT difference(mean(i)), cumulative_sum(mean(i)) FROM m WHERE time >= 0 AND time < 3h AND h = '' GROUP BY time(1h) fill(2.9)`, []string{"m[] [time difference cumulative_sum] 3", "0 0.10000000000000009 3 ", "3600000000000 1 7 ", "7200000000000 -1.1 9.9 "}},
		// A tag that a subquery groups by and a series lacks is "".
		{`SELECT x, h FROM (SELECT max(i) AS x FROM m GROUP BY h)`, []string{"m[] [time x h] 2", "600000000000 2 a ", "3600000000000 4  "}},
		// The interval of the outer statement is the unit within.
		{`SELECT max(x) FROM (SELECT derivative(f) AS x FROM m WHERE h = 'a') WHERE time >= 0 AND time < 1h GROUP BY time(20m)`, []string{"m[] [time max] 3", "0 4 ", "1200000000000 -2 ", "2400000000000 <nil> "}},
		// A field among the arguments tells no series apart.
		{`SELECT top(f, i, 2) FROM m`, []string{"m[] [time top i] 1", "600000000000 3 2 "}},
		// A tag that a series lacks is null beside a field.
		{`SELECT i FROM n WHERE s = h`, []string{"n[] [time i] 1", "1000000000 2 "}},
		{`SELECT i FROM n WHERE s != h`, []string{"n[] [time i] 1", "2000000000 3 "}},
		{`SELECT i FROM n WHERE h != s OR h = ''`, []string{"n[] [time i] 2", "0 1 ", "2000000000 3 "}},
	} {
		res, err := collectSelect(context.Background(), m, c.q, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.q, err)
			continue
		}
		var got []string
		for _, r := range res {
			got = append(got, seriesTexts(r.Series)...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s\n got %q\nwant %q", c.q, got, c.want)
		}
	}
}
