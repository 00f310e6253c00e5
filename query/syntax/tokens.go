package syntax

import (
	"strings"

	"github.com/influxdata/influxql"
)

// token is a token of a text. influxql.Scanner does not tell where its tokens
// end, nor whether a name was quoted; the rules are its own.
type token struct {
	tok        influxql.Token
	text       string // as written
	start, end int    // place in the text, in bytes
}

// is reports whether the token is a word, written in any case and unquoted.
func (t token) is(word string) bool { return strings.EqualFold(t.text, word) }

// named reports whether the token may be a name.
func (t token) named() bool { return t.tok == influxql.IDENT || t.tok == influxql.BOUNDPARAM }

// operand reports whether an expression may end with the token: a slash after
// it divides, elsewhere one begins a regular expression.
func (t token) operand() bool {
	switch t.tok {
	case influxql.IDENT, influxql.BOUNDPARAM, influxql.NUMBER, influxql.INTEGER, influxql.DURATIONVAL, influxql.STRING,
		influxql.REGEX, influxql.TRUE, influxql.FALSE, influxql.RPAREN:
		return true
	}
	return false
}

// operators are the tokens of signs, longer ones before those they begin with.
var operators = []struct {
	text string
	tok  influxql.Token
}{
	{"=~", influxql.EQREGEX},
	{"!=", influxql.NEQ},
	{"!~", influxql.NEQREGEX},
	{">=", influxql.GTE},
	{"<=", influxql.LTE},
	{"<>", influxql.NEQ},
	{"::", influxql.DOUBLECOLON},
	{"=", influxql.EQ},
	{">", influxql.GT},
	{"<", influxql.LT},
	{"+", influxql.ADD},
	{"-", influxql.SUB},
	{"*", influxql.MUL},
	{"/", influxql.DIV},
	{"%", influxql.MOD},
	{"&", influxql.BITWISE_AND},
	{"|", influxql.BITWISE_OR},
	{"^", influxql.BITWISE_XOR},
	{"(", influxql.LPAREN},
	{")", influxql.RPAREN},
	{",", influxql.COMMA},
	{";", influxql.SEMICOLON},
	{":", influxql.COLON},
	{".", influxql.DOT},
}

// tokenize cuts a text into tokens; spaces and comments are left out. From what is no
// token on, the rest of the text is one token, ILLEGAL.
func tokenize(text string) (tokens []token) {
	for i := 0; i < len(text); {
		rest := text[i:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case strings.HasPrefix(rest, "--"):
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				return tokens
			}
			i += end
			continue
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return append(tokens, token{tok: influxql.ILLEGAL, text: rest, start: i, end: len(text)})
			}
			i += 2 + end + 2
			continue
		}
		tok, n := scanToken(rest, len(tokens) > 0 && tokens[len(tokens)-1].operand())
		if n == 0 {
			tok, n = influxql.ILLEGAL, len(rest)
		}
		tokens = append(tokens, token{tok: tok, text: rest[:n], start: i, end: i + n})
		i += n
	}
	return tokens
}

// scanToken returns the token that text begins with and its length, 0 for
// none. operand tells whether the token before is one.
func scanToken(text string, operand bool) (influxql.Token, int) {
	r := strings.NewReader(text)
	read := func() int { return len(text) - r.Len() }
	switch c := text[0]; {
	case c == '\'' || c == '"':
		if _, err := influxql.ScanString(r); err != nil {
			return 0, 0
		}
		if c == '"' {
			return influxql.IDENT, read()
		}
		return influxql.STRING, read()
	case isLetter(c) || c == '_':
		return influxql.Lookup(influxql.ScanBareIdent(r)), read()
	case c == '$':
		if len(text) > 1 && text[1] == '"' {
			_, n := scanToken(text[1:], false)
			return influxql.BOUNDPARAM, n + min(n, 1)
		}
		r = strings.NewReader(text[1:])
		n := len(influxql.ScanBareIdent(r))
		return influxql.BOUNDPARAM, n + min(n, 1)
	case isDigit(c), c == '.' && len(text) > 1 && isDigit(text[1]):
		return scanNumber(text)
	case c == '/' && !operand:
		if _, err := influxql.ScanDelimited(r, '/', '/', map[rune]rune{'/': '/'}, true); err != nil {
			return 0, 0
		}
		return influxql.REGEX, read()
	}
	for _, op := range operators {
		if strings.HasPrefix(text, op.text) {
			return op.tok, len(op.text)
		}
	}
	return 0, 0
}

// scanNumber scans an integer, a number with a point, or a duration.
func scanNumber(text string) (influxql.Token, int) {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	if n < len(text) && text[n] == '.' {
		for n++; n < len(text) && isDigit(text[n]); n++ {
		}
		return influxql.NUMBER, n
	}
	tok := influxql.INTEGER
	for n < len(text) {
		switch {
		case isLetter(text[n]):
			tok = influxql.DURATIONVAL
			n++
			continue
		case strings.HasPrefix(text[n:], "µ"):
			tok = influxql.DURATIONVAL
			n += len("µ")
			continue
		case tok == influxql.DURATIONVAL && isDigit(text[n]):
			n++
			continue
		}
		break
	}
	return tok, n
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
