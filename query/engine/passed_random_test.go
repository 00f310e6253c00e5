package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan/scantest"
)

// TestPassedRandomly: statements over subqueries of all kinds give what they give when each
// subquery runs by itself, as one with a LIMIT does.
func TestPassedRandomly(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 42))
	one := func(list ...string) string { return list[rnd.IntN(len(list))] }
	answers, errors := 0, 0
	for range 20 {
		m := scantest.New()
		m.ShardSpan, m.ChunkRows, m.Stats = 100e9, 1+rnd.IntN(40), rnd.IntN(2) == 0
		m.Create("d", "autogen")
		var b strings.Builder
		for at, n := 0, 0; n < 300; n++ {
			switch rnd.IntN(12) {
			case 0:
				at += rnd.IntN(60) // a gap
			case 1:
				at = max(0, at-rnd.IntN(50)) // late rows, some of which replace others
			default:
				at += rnd.IntN(3)
			}
			var fields []string
			for _, f := range []string{"v", "w"} {
				if rnd.IntN(4) > 0 {
					suffix := ""
					if f == "w" || at >= 300 { // v is another type in other shards
						suffix = "i"
					}
					fields = append(fields, fmt.Sprintf("%s=%d%s", f, rnd.IntN(9)-4, suffix))
				}
			}
			if rnd.IntN(3) == 0 {
				fields = append(fields, fmt.Sprintf("s=\"%c\",b=%t", 'a'+rnd.IntN(4), rnd.IntN(2) == 0))
			}
			if len(fields) == 0 {
				continue
			}
			tags := one("", ",h=a", ",h=b", ",h=a,k=x", ",k=y")
			fmt.Fprintf(&b, "%s%s %s %d\n", one("m", "m", "m", "n"), tags, strings.Join(fields, ","), at)
		}
		m.Write(t, "d", "", "s", b.String())
		// limited stands where a subquery gets a LIMIT that changes nothing.
		const limited = "\x00"
		order := ""
		rows := func() string {
			lo := rnd.IntN(300)
			return "(SELECT " + one("v AS x, w AS y", "w AS x, v AS y", "v + w AS x, w AS y", "w * 2 AS x, v / w AS y", "s AS x, w AS y", "b AS x, v AS y", "v AS x, w AS y, h", "v AS x, h AS y", "-v AS x, abs(w) AS y", "w % 3 AS x, v AS y", "v::integer AS x, w::float AS y", "* ", "w AS x, w AS y") +
				" FROM " + one("m", "m", "n", "m, n", "/./") +
				one("", "", " WHERE w > 0", " WHERE h = 'a'", " WHERE h = 'b' OR v > 1", fmt.Sprintf(" WHERE time >= %ds AND time < %ds", lo, lo+rnd.IntN(200)), " WHERE k != ''", fmt.Sprintf(" WHERE time >= %ds AND s =~ /[ab]/", lo)) +
				one("", "", " GROUP BY h", " GROUP BY *", " GROUP BY k, h") + order + limited + one("", "", " TZ('Europe/Berlin')") + ")"
		}
		fold := func() string {
			return one("count", "sum", "mean", "min", "max", "spread", "stddev", "mode", "distinct", "first", "last", "median", "integral") + one("(x)", "(y)")
		}
		outer := func(from, list string) string {
			lo := rnd.IntN(200)
			return "SELECT " + list + " FROM " + from + fmt.Sprintf(" WHERE time >= %ds AND time < %ds", lo, lo+1+rnd.IntN(300)) +
				one("", " AND x > 0", "", "", " AND h = 'a'") +
				" GROUP BY " + one("time(20s)", "time(7s)", "time(20s, 3s)", "time(1m)", "h", "*", "k") + one("", ", h", ", k", ", *") +
				one("", " fill(none)", " fill(0)", " fill(previous)", " fill(linear)") + order +
				one("", "", " LIMIT 3", " LIMIT 2 OFFSET 1") + one("", "", "", " SLIMIT 2", " SLIMIT 1 SOFFSET 1") + one("", "", " TZ('Asia/Kolkata')")
		}
		for range 100 {
			order = one("", "", " ORDER BY time DESC")
			list := fold()
			switch rnd.IntN(4) {
			case 0:
				list += ", " + fold()
			case 1:
				list = one("sum(x) / count(y)", "top(x, 2)", "derivative(mean(x), 1s)", "max(x), y", "count(distinct(x))", "percentile(x, 75)", "cumulative_sum(sum(y))", "count(*)", "mean(/x|y/)")
			}
			text := outer(rows(), list)
			switch rnd.IntN(4) {
			case 0:
				text = outer("("+outer(rows(), fold()+" AS x, "+fold()+" AS y")+")", list)
			case 1:
				text = outer(rows()+", "+rows(), list)
			}
			ask := func(limit string) string {
				text := strings.ReplaceAll(text, limited, limit)
				res, err := collectSelect(t.Context(), m, text, Options{Workers: 1 + rnd.IntN(3), Now: time.Unix(1000, 0)})
				if err != nil {
					errors++
					return err.Error()
				}
				var out []string
				for _, r := range res {
					out = append(out, seriesTexts(r.Series)...)
				}
				if out != nil {
					answers++
				}
				return fmt.Sprintf("%q", out)
			}
			if got, want := ask(""), ask(" LIMIT 1000000"); got != want {
				t.Errorf("seed %d: %s:\n%.600s, want\n%.600s", seed, strings.ReplaceAll(text, limited, ""), got, want)
			}
		}
	}
	t.Logf("%d answers, %d errors", answers, errors)
}
