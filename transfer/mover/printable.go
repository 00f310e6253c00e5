package mover

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable quotes the bytes of a text that a terminal would interpret. Texts of
// errors quote lines of the input, which can be anything.
func Printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == '\n' || n > 1 && unicode.IsPrint(r) || n == 1 && r >= ' ' && r < 0x7f {
			b.WriteString(text[:n])
		} else {
			quoted := strconv.Quote(text[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return b.String()
}
