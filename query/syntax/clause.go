package syntax

import (
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/query/window"
)

// clauses rewrites, before the parser, the clauses of our own that InfluxQL can
// say in more words:
//
//	x [NOT] BETWEEN a AND b  (x >= a AND x <= b), (x < a OR x > b)
//	time(1mo), time(1q, 4d)  time(744h, '1mo'), time(2232h, '1q 4d')
//	now() - 1mo, now() + 1y  now('-1mo'), now('+1y')
//
// and in the source of a downsample, policy./regex/, a string of the regular expression,
// and cuts out those that become part of the statement after it (cut). Of a set,
// x IN (a, b), it makes x = list(a, b), where list is a name that the text does
// not have; MakeSets makes the set of it.
type clauses struct {
	text    string
	tokens  []token
	out     strings.Builder
	done    int // of the text, in bytes
	cut     []cutClause
	rewrote bool
	list    string
}

// rewriting is a part of a text in InfluxQL.
type rewriting struct {
	source string // the whole text
	text   string
	cut    []cutClause
	list   string // the name of lists
	ours   bool   // there is something of our own in it
}

// cutClause is a clause that the grammar has no words for.
type cutClause struct {
	query  int    // number of the SELECT among those of the text
	having string // the condition of HAVING
	at     int    // its place in the text
	back   string // how far fill(previous, back) looks back
}

// rewriteClauses rewrites the part of a text that some tokens are. list is a
// name that the text does not have.
func rewriteClauses(text string, tokens []token, list string) rewriting {
	begin, end := tokens[0].start, tokens[len(tokens)-1].end
	c := clauses{text: text[:end], tokens: tokens, done: begin, list: list}
	type open struct{ query, depth int }
	var selects []open
	depth, queries := 0, 0
	for i := 0; i < len(tokens); i++ {
		switch t := tokens[i]; {
		case t.tok == influxql.SELECT:
			selects = append(selects, open{queries, depth})
			queries++
		case t.tok == influxql.LPAREN:
			depth++
		case t.tok == influxql.RPAREN:
			depth--
			for len(selects) > 0 && selects[len(selects)-1].depth > depth {
				selects = selects[:len(selects)-1]
			}
		case t.tok == influxql.IN:
			i = c.in(i)
		case t.is("BETWEEN"):
			i = c.between(i)
		case t.is("HAVING") && len(selects) > 0 && selects[len(selects)-1].depth == depth && i > 0 && c.clauseMayEnd(i-1):
			i = c.having(i, selects[len(selects)-1].query)
		case t.is("time") && i > 0 && (tokens[i-1].tok == influxql.BY || tokens[i-1].tok == influxql.COMMA):
			c.calendar(i)
		case t.is("now"):
			c.nowMonths(i)
		case t.tok == influxql.REGEX && c.at(i-1).tok == influxql.DOT && (tokens[0].tok == influxql.ON || tokens[0].named() && c.at(1).tok == influxql.ON):
			c.replace(t.start, t.end, influxql.QuoteString(strings.ReplaceAll(t.text[1:len(t.text)-1], `\/`, "/")))
		case t.is("fill") && len(selects) > 0 && selects[len(selects)-1].depth == depth:
			i = c.fillBack(i, selects[len(selects)-1].query)
		}
	}
	c.replace(end, end, "")
	return rewriting{source: text, text: c.out.String(), cut: c.cut, list: list, ours: c.rewrote || len(c.cut) > 0}
}

// unusedName returns a short name that is none of the tokens.
func unusedName(tokens []token) string {
	used := map[string]bool{}
	for _, t := range tokens {
		if name := strings.ToLower(strings.Trim(t.text, `"`)); strings.HasPrefix(name, "i") {
			used[name] = true
		}
	}
	for n := 0; ; n++ {
		if name := "i" + strconv.Itoa(n); !used[name] {
			return name
		}
	}
}

// replace writes text instead of the text between two offsets.
func (c *clauses) replace(from, to int, text string) {
	c.out.WriteString(c.text[c.done:from])
	c.out.WriteString(text)
	c.done = to
}

func (c *clauses) at(i int) token {
	if i < 0 || i >= len(c.tokens) {
		return token{tok: influxql.EOF}
	}
	return c.tokens[i]
}

// subject returns the first token of the reference before token i, and whether NOT is
// between them. first is -1 if there is no reference.
func (c *clauses) subject(i int) (first int, negated bool) {
	i--
	if c.at(i).is("NOT") && c.at(i-1).named() || c.at(i).is("NOT") && c.at(i-2).tok == influxql.DOUBLECOLON {
		negated = true
		i--
	}
	if c.at(i-1).tok == influxql.DOUBLECOLON {
		i -= 2 // the type of a cast
	}
	if !c.at(i).named() {
		return -1, negated
	}
	for c.at(i-1).tok == influxql.DOT && c.at(i-2).named() {
		i -= 2
	}
	switch before := c.at(i - 1).tok; before {
	case influxql.WHERE, influxql.AND, influxql.OR, influxql.LPAREN, influxql.EOF:
		return i, negated
	}
	return -1, negated // part of a sum, or no condition at all
}

// goesOn reports whether token i is an operator, so that the expression continues.
func (c *clauses) goesOn(i int) bool {
	t := c.at(i).tok
	return t >= influxql.ADD && t <= influxql.GTE && t != influxql.AND && t != influxql.OR
}

// in rewrites x IN (...), i being the place of IN, and returns the place of the
// last token it has dealt with.
func (c *clauses) in(i int) int {
	first, negated := c.subject(i)
	if first < 0 || c.at(i+1).tok != influxql.LPAREN || isTimeName(c.at(first)) {
		return i // time under OR is no set of times in InfluxQL
	}
	j := i + 2
	for {
		if t := c.at(j).tok; t == influxql.ADD || t == influxql.SUB {
			j++
		}
		switch c.at(j).tok {
		case influxql.STRING, influxql.REGEX, influxql.INTEGER, influxql.NUMBER, influxql.TRUE, influxql.FALSE, influxql.BOUNDPARAM:
		default:
			return i
		}
		j++
		if c.at(j).tok == influxql.RPAREN {
			break
		}
		if c.at(j).tok != influxql.COMMA {
			return i
		}
		j++
	}
	if c.goesOn(j + 1) {
		return i
	}
	end := i - 1
	if negated {
		end--
	}
	op := "="
	if negated {
		op = "!="
	}
	// As long as what it replaces, so that what follows keeps its place.
	from, to := c.at(end).end, c.at(i+1).start
	c.replace(from, to, strings.Repeat(" ", max(0, to-from-len(op+c.list)))+op+c.list)
	c.replace(c.at(j).end, c.at(j).end, "")
	c.rewrote = true
	return j
}

func isTimeName(t token) bool { return strings.EqualFold(strings.Trim(t.text, `"`), "time") }

// between rewrites x BETWEEN a AND b, i being the place of BETWEEN.
func (c *clauses) between(i int) int {
	first, negated := c.subject(i)
	if first < 0 || negated && c.at(first).is("time") {
		return i
	}
	and := c.sum(i + 1)
	if and < 0 || c.at(and).tok != influxql.AND {
		return i
	}
	next := c.sum(and + 1)
	if next < 0 || c.goesOn(next) {
		return i
	}
	end := i - 1
	if negated {
		end--
	}
	name := c.text[c.at(first).start:c.at(end).end]
	low := rewriteClauses(c.text, c.tokens[i+1:and], c.list).text
	high := rewriteClauses(c.text, c.tokens[and+1:next], c.list).text
	text := "(" + name + " >= " + low + " AND " + name + " <= " + high + ")"
	if negated {
		text = "(" + name + " < " + low + " OR " + name + " > " + high + ")"
	}
	c.replace(c.at(first).start, c.at(next-1).end, text)
	c.rewrote = true
	return next - 1
}

// sum returns the place after a sum of literals and now() that begins at i, -1
// if there is none.
func (c *clauses) sum(i int) int {
	for {
		if t := c.at(i).tok; t == influxql.SUB || t == influxql.ADD {
			i++
		}
		switch c.at(i).tok {
		case influxql.STRING, influxql.INTEGER, influxql.NUMBER, influxql.DURATIONVAL, influxql.BOUNDPARAM:
		case influxql.IDENT:
			if !c.at(i).is("now") || c.at(i+1).tok != influxql.LPAREN || c.at(i+2).tok != influxql.RPAREN {
				return -1
			}
			i += 2
		default:
			return -1
		}
		i++
		if t := c.at(i).tok; t != influxql.ADD && t != influxql.SUB {
			return i
		}
	}
}

// calendar rewrites time(1mo) and time(1mo, offset), i being the place of time.
func (c *clauses) calendar(i int) {
	length := c.at(i + 2)
	months := window.CalendarMonths(strings.ToLower(length.text))
	if c.at(i+1).tok != influxql.LPAREN || months == 0 {
		return
	}
	text := strings.ToLower(length.text)
	end := i + 3
	if c.at(end).tok == influxql.COMMA && c.at(end+1).tok == influxql.DURATIONVAL {
		text += " " + c.at(end+1).text
		end += 2
	}
	if c.at(end).tok != influxql.RPAREN || !new(window.Windows).SetCalendar(text) {
		return
	}
	nominal := influxql.FormatDuration(time.Duration(months) * window.MonthLength)
	c.replace(length.start, c.at(end).start, nominal+", '"+text+"'")
	c.rewrote = true
}

// nowMonths rewrites now() - 1mo, i being the place of now.
func (c *clauses) nowMonths(i int) {
	if c.at(i+1).tok != influxql.LPAREN || c.at(i+2).tok != influxql.RPAREN {
		return
	}
	sign, months := c.at(i+3), c.at(i+4)
	if sign.tok != influxql.ADD && sign.tok != influxql.SUB {
		return
	}
	text := strings.ToLower(months.text)
	if window.CalendarMonths(text) == 0 {
		return
	}
	c.replace(c.at(i+2).start, months.end, "'"+sign.text+text+"')")
	c.rewrote = true
}

// fillBack makes fill(previous, 1h) fill(previous), i being the place of fill.
func (c *clauses) fillBack(i, query int) int {
	if c.at(i+1).tok != influxql.LPAREN || !c.at(i+2).is("previous") || c.at(i+3).tok != influxql.COMMA ||
		c.at(i+4).tok != influxql.DURATIONVAL || c.at(i+5).tok != influxql.RPAREN {
		return i
	}
	c.replace(c.at(i+3).start, c.at(i+5).start, "")
	c.cut = append(c.cut, cutClause{query: query, back: c.at(i + 4).text})
	return i + 5
}

// clauseMayEnd reports whether a clause before HAVING may end with token i.
func (c *clauses) clauseMayEnd(i int) bool {
	t := c.at(i)
	if t.tok == influxql.MUL {
		before := c.at(i - 1).tok
		return before == influxql.BY || before == influxql.COMMA
	}
	return t.operand()
}

// having cuts out HAVING, which is at i, up to the clause after it.
func (c *clauses) having(i, query int) int {
	depth := 0
	j := i + 1
scan:
	for ; j < len(c.tokens); j++ {
		switch t := c.tokens[j]; t.tok {
		case influxql.LPAREN:
			depth++
		case influxql.RPAREN:
			if depth--; depth < 0 {
				break scan
			}
		case influxql.ORDER, influxql.LIMIT, influxql.OFFSET, influxql.SLIMIT, influxql.SOFFSET, influxql.END:
			break scan
		case influxql.IDENT:
			if depth == 0 && (t.is("tz") || t.is("fill")) && c.at(j+1).tok == influxql.LPAREN {
				break scan
			}
		}
	}
	if j == i+1 {
		return i
	}
	from, to := c.at(i).start, c.at(j-1).end
	having := rewriteClauses(c.text, c.tokens[i+1:j], c.list)
	c.cut = append(c.cut, cutClause{query: query, having: having.text, at: c.at(i + 1).start})
	c.replace(from, to, blank(c.text[from:to]))
	return j - 1
}
