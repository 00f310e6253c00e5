package syntax

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
)

// The size that is bounded is at least that of the program, and not much more.
func TestRegexBytes(t *testing.T) {
	for _, expr := range []string{
		"", "a", "abc|de*", "(a+b?)*c", "a{1000}", "(?:ab{10}){100}", "a{2,}", "a{0,}", "a{3,900}", `\pL{500}`, `(?i)\pL`, "[^a]{1000}", ".{1000}", `(?:\pL\pN){300}x`,
		"(a|bc|d){50}", "x\xff{1000}",
	} {
		tree, err := syntax.Parse(string([]rune(expr)), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		classes := map[*rune]bool{}
		for i := range prog.Inst {
			want += 40
			if r := prog.Inst[i].Rune; len(r) > 1 && !classes[&r[0]] {
				classes[&r[0]] = true
				want += int64(4 * len(r))
			}
		}
		if got := regexBytes(expr); got < want-3*40 || got > 2*want {
			t.Errorf("%q: %d bytes, the program has %d", expr, got, want)
		}
	}
	if got := regexBytes("(a"); got != 0 {
		t.Errorf("%d bytes of what is no expression", got)
	}
}

// Whatever holds the expressions of a text, the parser does not get to compile more
// than the bound.
func TestManyRegexes(t *testing.T) {
	one := "(?:" + strings.Repeat("a", 100) + "){1000}" // 4 MB
	param := map[string]any{"r": map[string]any{"regex": one}}
	many := func(n int, of, join string) string { return strings.Repeat(of+join, n-1) + of }
	for _, c := range []struct {
		name, text string
		params     map[string]any
		n          int
	}{
		{"one", "SELECT v FROM m WHERE h =~ /" + one + "/", nil, 1},
		{"conditions", "SELECT v FROM m WHERE " + many(5, "h =~ /"+one+"/", " OR "), nil, 5},
		{"sources", "SELECT v FROM " + many(5, "/"+one+"/", ", "), nil, 5},
		{"fields", "SELECT " + many(5, "mean(/"+one+"/)", ", ") + " FROM m", nil, 5},
		{"a set", "SELECT v FROM m WHERE h IN (" + many(5, "/"+one+"/", ", ") + ")", nil, 5},
		{"a having", "SELECT mean(v) FROM m GROUP BY h HAVING " + many(5, "h =~ /"+one+"/", " OR "), nil, 5},
		{"statements", many(5, "SHOW SERIES WHERE h =~ /"+one+"/", "; "), nil, 5},
		{"escaped slashes", "SELECT v FROM m WHERE " + many(5, `h =~ /x\\/`+one+"/", " OR "), nil, 5},
		{"comments", "SELECT v /* / */ FROM m WHERE " + many(5, "h =~ /* x */ /"+one+"/", " OR "), nil, 5},
		{"no UTF-8", "SELECT v FROM m WHERE " + many(5, "h =~ /\xff"+one+"/", " OR "), nil, 5},
		{"a parameter", "SELECT v FROM m WHERE h =~ $r", param, 1},
		{"a parameter many times", "SELECT v FROM m WHERE " + many(5, "h =~ $r", " OR "), param, 5},
		{"classes", "SELECT v FROM m WHERE h =~ /" + strings.Repeat(`\pL`, 5000) + "/", nil, 5},
		{"classes that Go would refuse later", "SELECT v FROM m WHERE h =~ /" + strings.Repeat(`\pL`, 30_000) + "/", nil, 5},
		{"ordinary", "SELECT v FROM m WHERE " + many(500, "h =~ /^server-[0-9a-f]{4,12}$/", " OR "), nil, 1},
		{"divisions", "SELECT " + many(500, "a / b / c", ", ") + " FROM m", nil, 1},
	} {
		_, err := Parse(c.text, c.params)
		refused := err != nil && strings.Contains(err.Error(), "regular expressions are too large: a query may have 16 MiB")
		if refused != (c.n > 4) || err != nil && !refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := (&RegexBudget{}).Add(fmt.Sprintf("(?:%s){1000}", strings.Repeat("b", 1000))); err == nil {
		t.Error("an expression of 40 MB is within 16 MiB")
	}
}
