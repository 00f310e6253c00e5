package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// TestPromtool runs the queries of promtool.
func TestPromtool(t *testing.T) {
	s := newSuite(t, "promtool query")
	promtool := s.need("promtool", "apt-get install prometheus")
	version, more, err := command(t, "", nil, "", promtool, "--version")
	s.must(err)
	if _, after, ok := strings.Cut(version+more, "version "); ok {
		s.version, _, _ = strings.Cut(after, " ")
	}
	server := apptest.Start(t)
	server.Query("", "CREATE DATABASE shop")
	const start = 1_700_000_000
	var lines []string
	for i := range 11 {
		lines = append(lines, fmt.Sprintf("orders,country=no,shop=a paid=%di,value=%d %d", i, 2*i, (start+int64(i)*60)*1e9))
	}
	lines = append(lines, fmt.Sprintf("orders,country=se paid=7i %d", int64(start+600)*1e9))
	server.Write("shop", strings.Join(lines, "\n"))
	base := server.URL + "/prometheus/shop"
	at := func(seconds int64) string { return time.Unix(start+seconds, 0).UTC().Format(time.RFC3339) }
	for _, c := range []struct {
		name string
		args []string
		want string // lines in any order
	}{
		{"instant", []string{"instant", "--time=" + at(600), base, "orders_paid"}, "orders_paid{country=\"no\", shop=\"a\"} => 10 @[1700000600]\norders_paid{country=\"se\"} => 7 @[1700000600]"},
		{"instant, scalar", []string{"instant", "--time=" + at(600), base, "scalar(sum(orders_paid)) * 2"}, "scalar: 34 @[1700000600]"},
		{"instant, range", []string{"instant", "--time=" + at(600), base, `changes(orders{country="no"}[5m1s])`}, "{country=\"no\", shop=\"a\"} => 5 @[1700000600]"},
		{
			"range",
			[]string{"range", "--start=" + fmt.Sprint(start+540), "--end=" + fmt.Sprint(start+600), "--step=30s", base, `orders_paid{country="no"}`},
			"orders_paid{country=\"no\", shop=\"a\"} =>\n9 @[1700000540]\n9 @[1700000570]\n10 @[1700000600]",
		},
		{
			"series",
			[]string{"series", "--match=orders_paid", "--match=orders", "--start=" + fmt.Sprint(start), "--end=" + fmt.Sprint(start+600), base},
			"{__name__=\"orders\", country=\"no\", shop=\"a\"}\n{__name__=\"orders_paid\", country=\"no\", shop=\"a\"}\n{__name__=\"orders_paid\", country=\"se\"}",
		},
		{"labels", []string{"labels", "--start=" + fmt.Sprint(start), "--end=" + fmt.Sprint(start+600), base, "country"}, "no\nse"},
		{"labels, names", []string{"labels", "--start=" + fmt.Sprint(start), "--end=" + fmt.Sprint(start+600), base, "__name__"}, "orders\norders_paid"},
	} {
		out, errs, err := command(t, "", nil, "", append([]string{promtool, "query"}, c.args...)...)
		if err != nil {
			err = fmt.Errorf("%w: %s%s", err, out, errs)
		}
		s.check(c.name, err)
		got, want := strings.Split(strings.TrimSpace(out), "\n"), strings.Split(c.want, "\n")
		slices.Sort(got)
		slices.Sort(want)
		s.equal(c.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	out, errs, err := command(t, "", nil, "", promtool, "query", "instant", base, "rate(orders)")
	if err == nil || !strings.Contains(out+errs, "expected type range vector") {
		s.check("an error", fmt.Errorf("%q %q %w", out, errs, err))
	}
	s.check("an error", nil)
}
