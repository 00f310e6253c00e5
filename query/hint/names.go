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

// meant asks whether the candidate that is most like name was meant.
func (a *Asker) meant(name string, candidates []string) string {
	if near := a.nearest(name, candidates); near != "" {
		return "; did you mean " + quoted(near) + "?"
	}
	return ""
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
		if d := distance(want, []rune(strings.ToLower(c))); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance returns how many letters must be inserted, removed, replaced, or swapped with
// the next to make b of a.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			n := last[j]
			if a[i] != b[j] {
				n++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, before[j-1]+1)
			}
			row[j+1] = min(n, last[j+1]+1, row[j]+1)
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
