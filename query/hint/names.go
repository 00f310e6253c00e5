package hint

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/influxdata/influxql"
)

// maxText is how many bytes of a name or value a text shows, and how long names are
// that are compared.
const maxText = 128

// clip cuts a text between characters at maxText.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// quoted returns a name in double quotes.
func quoted(name string) string { return strconv.Quote(clip(name)) }

// text returns a value in single quotes.
func text(value string) string { return influxql.QuoteString(clip(value)) }

func policyText(db, rp string) string {
	return influxql.QuoteIdent(clip(db)) + "." + influxql.QuoteIdent(clip(rp))
}

// meant asks whether a name was meant; "" asks nothing.
func meant(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + quoted(name) + "?"
}

// nearest returns the candidate that is most like name, or "" if none is. It compares
// maxNames names at most, those around name in the order of the candidates, which are
// sorted.
func (a *Asker) nearest(name string, candidates []string) string {
	if a.near++; a.near > maxNear || len(name) > maxText {
		return ""
	}
	if len(candidates) > maxNames {
		at, _ := slices.BinarySearch(candidates, name)
		lo := min(max(0, at-maxNames/2), len(candidates)-maxNames)
		candidates = candidates[lo : lo+maxNames]
	}
	want := []rune(strings.ToLower(name))
	best, limit := "", min(3, max(1, len(want)/3))
	for i, c := range candidates {
		if i%256 == 0 && a.ctx.Err() != nil {
			break
		}
		if c == name || len(c) > maxText {
			continue
		}
		if d := distance(want, []rune(strings.ToLower(c)), limit); d <= limit {
			if best, limit = c, d-1; d == 0 {
				break
			}
		}
	}
	return best
}

// distance returns how many letters must be inserted, removed, replaced, or swapped
// with the next to make b of a. It returns more than limit if that is not enough.
func distance(a, b []rune, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		least := row[0]
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			n := min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, before[j-1]+1)
			}
			row[j+1] = n
			least = min(least, n)
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// union returns the names of both lists, sorted, each once. It may change a.
func union(a, b []string) []string {
	a = append(a, b...)
	slices.Sort(a)
	return slices.Compact(a)
}
