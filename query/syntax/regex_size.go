package syntax

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/influxdata/influxql"
)

// maxRegexBytes bounds what the regular expressions of a query take together.
// Go bounds each of them, at some 128 MiB, but a query may have very many.
const maxRegexBytes = 16 << 20

// smallText is the length below which a text without repeats stays within the
// bound: \pL, three bytes, takes 5 kB.
const smallText = 4 << 10

// classBytes is what \pL takes, one of the largest Unicode classes.
const classBytes = 5 << 10

// RegexBudget adds up what regular expressions take once they are compiled. The
// zero value has seen none.
type RegexBudget struct{ bytes int64 }

// Add adds an expression. An error says that all of them take too much. One that
// is not valid takes nothing.
func (b *RegexBudget) Add(expr string) error { return b.add(regexBytes(expr), 1) }

// Bytes returns what the expressions take.
func (b *RegexBudget) Bytes() int64 { return b.bytes }

func (b *RegexBudget) add(bytes int64, times int) error {
	if bytes > 0 && int64(times) > (maxRegexBytes-b.bytes)/bytes {
		return fmt.Errorf("regular expressions are too large: a query may have %d MiB of them, repeats such as a{1000} written out", maxRegexBytes>>20)
	}
	b.bytes += bytes * int64(times)
	return nil
}

// CheckRegexes returns roughly how many bytes the regular expressions of a text of
// InfluxQL take, and an error if that is too much. The parser compiles them while
// it reads.
func CheckRegexes(text string, params map[string]any) (bytes int64, err error) {
	var b RegexBudget
	// The parser compiles a bound expression wherever the text names it. Each $
	// counts for the largest one.
	largest := int64(0)
	for _, p := range params {
		if re, ok := influxql.BindValue(p).(influxql.RegexValue); ok {
			largest = max(largest, regexBytes(string(re)))
		}
	}
	if err := b.add(largest, strings.Count(text, "$")); err != nil {
		return 0, err
	}
	if len(text) < smallText && !strings.Contains(text, "{") {
		return b.bytes, nil
	}
	// Only the parser knows where an expression begins. Each lies between two
	// slashes that follow one another and have no backslash before them.
	begin := -1
	for i := range len(text) {
		if text[i] != '/' || i > 0 && text[i-1] == '\\' {
			continue
		}
		if begin >= 0 && !strings.Contains(text[begin:i], "\n") {
			if err := b.Add(strings.ReplaceAll(text[begin:i], `\/`, `/`)); err != nil {
				return 0, err
			}
		}
		begin = i + 1
	}
	return b.bytes, nil
}

// regexBytes returns roughly what an expression takes once it is compiled.
func regexBytes(expr string) int64 {
	const instBytes, runeBytes = 40, 4
	// The classes of an expression take memory as soon as it is parsed.
	if n := classBytes * int64(strings.Count(expr, `\p`)+strings.Count(expr, `\P`)); n > maxRegexBytes {
		return n
	}
	if !utf8.ValidString(expr) {
		expr = string([]rune(expr)) // as the parser reads it
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0
	}
	insts, runes := programSize(tree)
	return insts*instBytes + runes*runeBytes
}

// programSize returns the number of instructions that a tree compiles to, and of
// the runes of its classes, which repeats share. syntax.Parse has bounded both,
// and the depth of the tree.
func programSize(re *syntax.Regexp) (insts, runes int64) {
	for _, sub := range re.Sub {
		i, r := programSize(sub)
		insts, runes = insts+i, runes+r
	}
	switch re.Op {
	case syntax.OpLiteral:
		insts = int64(len(re.Rune))
	case syntax.OpCharClass:
		insts, runes = 1, int64(len(re.Rune))
	case syntax.OpCapture, syntax.OpStar:
		insts += 2
	case syntax.OpPlus, syntax.OpQuest:
		insts++
	case syntax.OpAlternate:
		insts += int64(len(re.Sub)) - 1
	case syntax.OpRepeat:
		switch {
		case re.Max >= 0:
			insts = int64(re.Max)*insts + int64(re.Max-re.Min)
		case re.Min == 0:
			insts += 2
		default:
			insts = 1 + int64(re.Min)*insts
		}
	}
	return max(1, insts), runes
}
