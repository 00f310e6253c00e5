package syntax

import (
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/influxdata/influxql"
)

// bindBytes returns a text that the grammar reads with the bytes of its quoted names and
// strings. The scanner makes U+FFFD of what is not UTF-8, a line break of a carriage
// return, and takes a zero byte for the end, so tokens with such bytes become bound
// parameters. Regular expressions stay as they are: such a byte is a character of them.
func bindBytes(text string, params map[string]any) (string, map[string]any) {
	if utf8.ValidString(text) && !strings.ContainsAny(text, "\x00\r") {
		return text, params
	}
	tokens := tokenize(text)
	name := ""
	var out strings.Builder
	done, bound := 0, 0
	for _, t := range tokens {
		if t.tok != influxql.STRING && (t.tok != influxql.IDENT || t.text[0] != '"') {
			continue
		}
		if utf8.ValidString(t.text) && !strings.ContainsAny(t.text, "\x00\r") {
			continue
		}
		value, ok := unquote(t.text)
		if !ok {
			continue
		}
		if name == "" {
			name = unusedName(tokens)
			if params = maps.Clone(params); params == nil {
				params = map[string]any{}
			}
		}
		key := name
		for ; params[key] != nil; bound++ {
			key = name + "_" + strconv.Itoa(bound)
		}
		kind := "string"
		if t.tok == influxql.IDENT {
			kind = "identifier"
		}
		params[key] = map[string]any{kind: value}
		out.WriteString(text[done:t.start])
		out.WriteString("$" + key)
		done = t.end
	}
	return out.String() + text[done:], params
}

// unquote returns the bytes of a name or string in quotes, by the rules of
// influxql.ScanString.
func unquote(quoted string) (string, bool) {
	var b strings.Builder
	for s := quoted[1 : len(quoted)-1]; s != ""; s = s[1:] {
		c := s[0]
		if c == '\\' {
			s = s[1:]
			switch c = s[0]; c {
			case 'n':
				c = '\n'
			case '\\', '"', '\'':
			default:
				return "", false
			}
		}
		b.WriteByte(c)
	}
	return b.String(), true
}
