package syntax

import (
	"slices"

	"github.com/influxdata/influxql"
)

// Keywords returns the words of the grammar and of its extensions, in upper case and
// sorted.
func Keywords() []string {
	words := []string{"RENAME"} // a clause of ALTER MEASUREMENT
	for t := influxql.Token(0); t <= influxql.WRITE; t++ {
		if word := t.String(); t != influxql.IDENT && influxql.Lookup(word) == t {
			words = append(words, word)
		}
	}
	for _, e := range extensions {
		words = append(words, e.words...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// Beginnings returns the words that a statement may begin with, sorted.
func Beginnings() []string {
	words := slices.Clone(influxql.Language.Keys)
	for _, e := range extensions {
		words = append(words, e.words[0])
	}
	slices.Sort(words)
	return slices.Compact(words)
}
