package apptest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// queryGen makes schemas, points and queries from a seed. Times are unique
// within a measurement, save for the measurement tie, so that the order of
// rows is defined; floats are eighths, so that sums are exact.
type queryGen struct {
	*rand.Rand
}

const (
	genStart = int64(1_600_000_000) // seconds; a Sunday, 12:26:40
	genSpan  = int64(3 * 86400)
)

func (g *queryGen) pick(list ...string) string { return list[g.IntN(len(list))] }
func (g *queryGen) one(n int) bool             { return g.IntN(n) == 0 }

// lines returns points of all measurements in line protocol, seconds.
func (g *queryGen) lines() string {
	var b strings.Builder
	for m := range 3 {
		used := map[int64]bool{}
		for h := range 4 {
			for n := 30 + g.IntN(60); n > 0; n-- {
				t := g.Int64N(genSpan)
				if g.one(3) {
					t -= t % 600
				}
				for used[t] {
					t++
				}
				used[t] = true
				fmt.Fprintf(&b, "m%d", m)
				if h < 3 {
					fmt.Fprintf(&b, ",h=h%d", h)
				}
				if g.one(2) {
					fmt.Fprintf(&b, ",r=%s", g.pick("eu", "us", "ap"))
				}
				b.WriteByte(' ')
				g.fields(&b)
				fmt.Fprintf(&b, " %d\n", genStart+t)
			}
		}
	}
	for t := int64(0); t < genSpan; t += 1800 { // whole series with equal times
		for h := range 3 {
			fmt.Fprintf(&b, "tie,h=h%d ", h)
			g.fields(&b)
			fmt.Fprintf(&b, " %d\n", genStart+t)
		}
	}
	for t := int64(0); t < genSpan; t += 1200 { // another type every day
		v := fmt.Sprintf("%d", g.IntN(50))
		if (genStart+t)/86400%2 == 0 {
			v += "i"
		} else {
			v += ".5"
		}
		fmt.Fprintf(&b, "mix,h=h%d v=%s %d\n", g.IntN(2), v, genStart+t+int64(g.IntN(600)))
	}
	return b.String()
}

func (g *queryGen) fields(b *strings.Builder) {
	var list []string
	add := func(f string, args ...any) { list = append(list, fmt.Sprintf(f, args...)) }
	if !g.one(4) {
		add("f=%v", float64(g.IntN(1600)-800)/8)
	}
	if !g.one(3) {
		add("i=%di", g.IntN(41)-20)
	}
	if g.one(2) {
		add("g=%v", float64(g.IntN(80))/8)
	}
	if g.one(3) {
		add("j=%di", g.IntN(5)-1)
	}
	if g.one(3) {
		add("s=%q", g.pick("a", "b", "ab", "", "x y"))
	}
	if g.one(3) || list == nil {
		add("b=%v", g.one(2))
	}
	b.WriteString(strings.Join(list, ","))
}

func (g *queryGen) num() string    { return g.pick("f", "i", "g", "j") }
func (g *queryGen) any() string    { return g.pick("f", "i", "g", "j", "s", "b", "f", "i") }
func (g *queryGen) source() string { return g.pick("m0", "m1", "m2", "m0", "m1") }

// query returns a statement.
func (g *queryGen) query() string {
	if g.one(30) { // the measurement of mixed types
		return "SELECT " + g.pick("v", "sum(v)", "max(v)", "first(v)", "mean(v)", "count(v)", "difference(v)", "v + 1", "v::integer", "v::float", "top(v, 2)", "distinct(v)") +
			" FROM mix" + g.where(true, g.one(2), "v") + g.pick("", " GROUP BY h")
	}
	if g.one(25) {
		return "SELECT " + g.pick("f, i", "f", "*", "mean(f)", "sum(i), count(f)", "difference(f)", "max(f)", "last(i)", "cumulative_sum(i)") + " FROM tie" + g.where(true, g.one(2), "") + " GROUP BY *"
	}
	if g.one(5) {
		return g.subquery()
	}
	return g.sel(g.from(), nil)
}

func (g *queryGen) from() string {
	switch g.IntN(12) {
	case 0:
		return "/m[01]/"
	case 1:
		return "m0, m2"
	case 2:
		return "nosuch, m1"
	}
	return g.source()
}

// sel returns a SELECT over a source. cols are the columns of a subquery.
func (g *queryGen) sel(from string, cols map[string]string) string {
	switch g.IntN(7) {
	case 0, 1:
		return g.raw(from)
	case 2:
		return g.transformRaw(from)
	case 3:
		return g.top(from)
	}
	return g.aggregate(from)
}

func (g *queryGen) raw(from string) string {
	var list []string
	switch g.IntN(8) {
	case 0:
		list = []string{"*"}
	case 1:
		list = []string{g.pick("/^[fi]$/", "*::field", "f, *", "h, f", "*::tag, i", "f AS h, i AS i")}
	case 2:
		list = []string{g.arith(g.num)}
	case 3:
		list = []string{g.mathCall(g.num()), g.any()}
	default:
		for range 1 + g.IntN(3) {
			list = append(list, g.pick(g.any(), g.any(), g.any()+"::"+g.pick("field", "float", "integer", "string"), g.any()+" AS x", g.arith(g.num)))
		}
		if g.one(4) {
			list = append(list, g.pick("h", "r", "h::tag", "nosuch"))
		}
	}
	q := "SELECT " + strings.Join(list, ", ") + " FROM " + from + g.where(!g.one(6), g.one(2), "f") + g.groupTags(4)
	if g.one(12) {
		q += " fill(" + g.pick("0", "previous", "null") + ")"
	}
	return q + g.order() + g.limit()
}

func (g *queryGen) mathCall(x string) string {
	switch g.IntN(3) {
	case 0:
		return g.pick("pow", "atan2", "log") + "(" + x + ", " + g.pick("2", "3", "1.5") + ")"
	}
	return g.pick("abs", "ceil", "floor", "round", "sqrt", "exp", "sin", "cos", "tan", "atan", "ln", "log2", "log10") + "(" + x + ")"
}

func (g *queryGen) arith(x func() string) string {
	a := x()
	switch g.IntN(6) {
	case 0:
		return a + " " + g.pick("+", "-", "*", "/", "%") + " " + g.pick("2", "3", "0.5", "-1", "0")
	case 1:
		return "(" + a + " + " + x() + ") * " + x()
	case 2:
		return g.pick("2", "10", "-3.5") + " " + g.pick("-", "*", "/") + " " + a
	case 3:
		return "-" + a
	}
	return a + " " + g.pick("+", "-", "*", "/", "%") + " " + x()
}

func (g *queryGen) aggCall() string {
	switch g.IntN(14) {
	case 0:
		return "count(" + g.any() + ")"
	case 1:
		return "count(distinct(" + g.any() + "))"
	case 2:
		return g.pick("first", "last") + "(" + g.any() + ")"
	case 3:
		return "percentile(" + g.num() + ", " + g.pick("50", "90", "99.5", "10", "0", "100") + ")"
	case 4:
		return g.pick("min", "max") + "(" + g.pick("f", "i", "g", "b") + ")"
	case 5:
		return "median(" + g.num() + ")"
	case 6:
		return "spread(" + g.num() + ")"
	case 7:
		return "stddev(" + g.num() + ")"
	case 8:
		return "integral(" + g.num() + g.pick("", ", 1m", ", 1h") + ")"
	}
	return g.pick("sum", "mean", "mean", "min", "max") + "(" + g.num() + ")"
}

func (g *queryGen) aggregate(from string) string {
	var list []string
	selector := false
	switch g.IntN(10) {
	case 0:
		list = []string{g.pick("mean", "sum", "max", "first", "count", "last", "spread") + "(" + g.pick("*", "/^[fg]$/", "/./") + ")"}
	case 1:
		list = []string{g.pick("max", "min", "first", "last", "percentile") + "(" + g.num() + ")"}
		if strings.HasPrefix(list[0], "percentile") {
			list[0] = "percentile(" + g.num() + ", 75)"
		}
		list = append(list, g.pick("h", "s", "g", "i, h", "f, b", "r"))
		selector = true
	case 2:
		list = []string{g.aggCall() + " " + g.pick("+", "-", "*", "/") + " " + g.aggCall()}
	case 3:
		list = []string{g.mathCall(g.aggCall())}
	case 4:
		list = []string{g.pick("distinct(", "DISTINCT(") + g.any() + ")"}
	case 5:
		list = []string{g.aggCall() + " " + g.pick("+", "*", "/", "-", "%") + " " + g.pick("2", "0.5", "3")}
	default:
		for range 1 + g.IntN(3) {
			list = append(list, g.aggCall()+g.pick("", "", " AS y"))
		}
	}
	if g.one(6) && !selector {
		return g.transformAgg(from)
	}
	window := g.one(2)
	q := "SELECT " + strings.Join(list, ", ") + " FROM " + from + g.where(window || !g.one(6), g.one(2), "f")
	q += g.groupBy(window)
	if window && g.one(2) {
		q += g.fill()
	}
	return q + g.order() + g.limit()
}

func (g *queryGen) transform(x string) string {
	switch g.IntN(8) {
	case 0:
		return "moving_average(" + x + ", " + g.pick("2", "3", "5") + ")"
	case 1:
		return g.pick("derivative", "non_negative_derivative") + "(" + x + g.pick("", ", 1m", ", 10s") + ")"
	case 2:
		return "elapsed(" + x + g.pick("", ", 1s", ", 1m") + ")"
	case 3:
		return "cumulative_sum(" + x + ")"
	}
	return g.pick("difference", "non_negative_difference", "derivative", "cumulative_sum") + "(" + x + ")"
}

func (g *queryGen) transformRaw(from string) string {
	list := g.transform(g.num())
	if g.one(5) {
		list += ", " + g.transform(g.num())
	}
	if g.one(8) {
		list = g.mathCall(list)
	}
	return "SELECT " + list + " FROM " + from + g.where(!g.one(6), g.one(2), "f") + g.groupTags(3) + g.order() + g.limit()
}

func (g *queryGen) transformAgg(from string) string {
	agg := g.pick("mean", "sum", "max", "last", "count", "first") + "(" + g.num() + ")"
	list := g.transform(agg)
	if g.one(5) {
		list += ", " + g.pick(agg, g.transform(agg))
	}
	q := "SELECT " + list + " FROM " + from + g.where(true, g.one(2), "f") + g.groupBy(true)
	if g.one(2) {
		q += g.fill()
	}
	return q + g.order() + g.limit()
}

func (g *queryGen) top(from string) string {
	args := g.num()
	if g.one(3) {
		args += ", " + g.pick("h", "r", "h, r")
	}
	n := 1 + g.IntN(4)
	list := fmt.Sprintf("%s(%s, %d)", g.pick("top", "bottom"), args, n)
	if g.one(3) {
		list += ", " + g.pick("i", "s", "h", "f, r")
	}
	window := g.one(2)
	return "SELECT " + list + " FROM " + from + g.where(true, g.one(2), "f") + g.groupBy(window)
}

func (g *queryGen) fill() string {
	return " fill(" + g.pick("none", "null", "0", "previous", "linear", "-1", "3.7") + ")"
}

// bounds returns two times in the text of a literal.
func (g *queryGen) bounds() (lo, hi string) {
	a, b := g.Int64N(genSpan), g.Int64N(genSpan)
	if a > b {
		a, b = b, a
	}
	if g.one(3) {
		a, b = a-a%3600, b-b%3600
	}
	b++
	return fmt.Sprintf("%ds", genStart+a), fmt.Sprintf("%ds", genStart+b)
}

func (g *queryGen) where(bounded, more bool, field string) string {
	var list []string
	if bounded {
		lo, hi := g.bounds()
		list = append(list, "time "+g.pick(">=", ">")+" "+lo, "time "+g.pick("<", "<=")+" "+hi)
	} else if g.one(3) {
		lo, hi := g.bounds()
		list = append(list, g.pick("time >= "+lo, "time < "+hi))
	}
	if more {
		list = append(list, g.cond(2, field != "v"))
	}
	if list == nil {
		return ""
	}
	return " WHERE " + strings.Join(list, " AND ")
}

func (g *queryGen) cond(depth int, fields bool) string {
	if depth > 0 && g.one(3) {
		return "(" + g.cond(depth-1, fields) + g.pick(" AND ", " OR ") + g.cond(depth-1, fields) + ")"
	}
	if !fields || g.one(2) {
		key := g.pick("h", "r", "h")
		switch g.IntN(4) {
		case 0:
			return key + g.pick(" =~ ", " !~ ") + g.pick("/^h[01]$/", "/u/", "/^$/", "/h2|eu/", "/^h1$/")
		}
		return key + g.pick(" = ", " != ") + g.pick("'h1'", "'h2'", "''", "'eu'", "'us'", "'zz'")
	}
	switch g.IntN(6) {
	case 0:
		return "s " + g.pick("=", "!=") + " " + g.pick("'a'", "'b'", "''")
	case 1:
		return "s " + g.pick("=~", "!~") + " " + g.pick("/a/", "/^$/", "/^b$/")
	case 2:
		return "b " + g.pick("=", "!=") + " " + g.pick("true", "false")
	case 3:
		return g.arith(g.num) + " " + g.pick(">", "<", ">=", "<=", "=", "!=") + " " + g.pick("0", "3", "-2.5", g.num())
	}
	return g.num() + " " + g.pick(">", "<", ">=", "<=", "=", "!=") + " " + g.pick("0", "5", "-2", "2.5", "-40", g.num())
}

func (g *queryGen) groupTags(often int) string {
	if !g.one(often) {
		return ""
	}
	return " GROUP BY " + g.pick("h", "r", "h, r", "*", "/h/", "nosuch")
}

func (g *queryGen) groupBy(window bool) string {
	var dims []string
	if window {
		every := g.pick("10m", "1h", "2h", "1d", "37m", "6h", "90m")
		dims = append(dims, "time("+every+g.pick("", "", "", ", 7m", ", -15m", ", 50h")+")")
	}
	if g.one(2) {
		dims = append(dims, g.pick("h", "r", "h, r", "*"))
	}
	if dims == nil {
		return ""
	}
	return " GROUP BY " + strings.Join(dims, ", ")
}

func (g *queryGen) order() string {
	if g.one(5) {
		return " ORDER BY time DESC"
	}
	return ""
}

func (g *queryGen) limit() string {
	s := ""
	if g.one(6) {
		s = fmt.Sprintf(" LIMIT %d", 1+g.IntN(9))
		if g.one(3) {
			s += fmt.Sprintf(" OFFSET %d", g.IntN(5))
		}
	}
	return s
}

// subquery returns a SELECT over one or two levels.
func (g *queryGen) subquery() string {
	lo, hi := g.bounds()
	if !g.one(4) { // on the edge of all windows used here
		lo = fmt.Sprintf("%ds", (genStart/21600+1+g.Int64N(6))*21600)
	}
	bound := " WHERE time >= " + lo + " AND time < " + hi
	switch g.IntN(8) {
	case 0: // raw within
		inner := "SELECT " + g.pick("f, i", "*", "f, i, g, j, h", "f AS f, i * 2 AS i") + " FROM " + g.source() + g.pick("", " WHERE h != 'h1'", " WHERE f > 0", " WHERE i < 5 OR f < 0")
		return "SELECT " + g.pick("mean(f)", "sum(i)", "max(f), min(i)", "count(i)", "f, i", "first(f)", "stddev(i)", "f + i", "percentile(f, 50)") + " FROM (" + inner + ")" + bound + g.pick("", "", " AND f > -20", " AND h = 'h0'") + g.pick("", " GROUP BY h", " GROUP BY h, r", " GROUP BY time(2h)")
	case 1: // windows of windows
		inner := "SELECT " + g.pick("mean", "max", "sum", "last") + "(" + g.num() + ") AS x FROM " + g.source() + bound + " GROUP BY time(" + g.pick("10m", "30m", "1h") + ")" + g.pick(", h", "", ", *") + g.pick("", " fill(none)", " fill(0)", " fill(previous)")
		return "SELECT " + g.pick("max", "mean", "sum", "count", "last", "spread") + "(x) FROM (" + inner + ")" + bound + g.pick("", " GROUP BY time(6h)", " GROUP BY time(1h), h", " GROUP BY h")
	case 2: // groups, then over the groups
		inner := "SELECT " + g.pick("sum", "max", "mean", "count", "min", "first") + "(" + g.num() + ") AS x FROM " + g.source() + bound + " GROUP BY " + g.pick("h", "h, r", "*")
		return "SELECT " + g.pick("sum(x)", "max(x)", "mean(x), count(x)", "x, h", "top(x, h, 2)", "x", "max(x), h") + " FROM (" + inner + ")" + bound + g.pick("", " AND x > 0", " GROUP BY h")
	case 3: // transforms within
		inner := "SELECT " + g.transform(g.num()) + " AS x FROM " + g.source() + bound + " GROUP BY " + g.pick("h", "*")
		return "SELECT " + g.pick("sum", "max", "mean", "count") + "(x) FROM (" + inner + ")" + bound + g.pick("", " GROUP BY time(3h)", " GROUP BY h")
	case 4: // arithmetic over aggregates
		inner := "SELECT " + g.aggCall() + " AS x, " + g.aggCall() + " AS y FROM " + g.source() + bound + " GROUP BY time(1h), h" + g.pick("", " fill(0)", " fill(none)")
		return "SELECT " + g.pick("x + y", "x / y", "max(x) - min(y)", "mean(x), mean(y)", "x, y") + " FROM (" + inner + ")" + bound + g.pick("", " GROUP BY h")
	case 5: // three levels
		inner := "SELECT mean(f) AS x FROM " + g.source() + bound + " GROUP BY time(20m), h"
		mid := "SELECT " + g.pick("max", "sum") + "(x) AS y FROM (" + inner + ") GROUP BY time(2h), h"
		return "SELECT " + g.pick("mean", "last", "count") + "(y) FROM (" + mid + ")" + bound + g.pick("", " GROUP BY h")
	case 6:
		return "SELECT " + g.pick("mean(f)", "count(i)", "f") + " FROM (SELECT f, i FROM m0), (SELECT f, i FROM m1)" + bound
	}
	return g.sel("(SELECT f, i, g, j, s, b FROM "+g.source()+g.pick("", " GROUP BY *", " WHERE h != 'h2'")+")", nil)
}
