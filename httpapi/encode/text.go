package encode

import "unicode/utf8"

// plainJSON marks the bytes that need no escape in a JSON string. Like encoding/json,
// it excludes <, > and &, so that an answer may be part of HTML.
var plainJSON = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string, escaped as encoding/json does. Bytes that are
// not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	return append(appendJSONText(append(dst, '"'), s), '"')
}

// appendJSONText is AppendString without the quotes.
func appendJSONText(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainJSON[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	return append(dst, s[start:]...)
}

// indenter turns compact JSON into JSON indented by four spaces. A document may come
// in pieces that are cut anywhere.
type indenter struct {
	depth  int
	text   bool // inside a string
	escape bool // after a backslash inside a string
	fresh  bool // just after an opening bracket
}

// append appends the indented form of src.
func (p *indenter) append(dst, src []byte) []byte {
	for _, c := range src {
		if p.text {
			dst = append(dst, c)
			switch {
			case p.escape:
				p.escape = false
			case c == '\\':
				p.escape = true
			case c == '"':
				p.text = false
			}
			continue
		}
		switch c {
		case '{', '[':
			dst = p.open(dst)
			dst = append(dst, c)
			p.depth++
			p.fresh = true
		case '}', ']':
			p.depth--
			if !p.fresh {
				dst = p.newline(dst)
			}
			p.fresh = false
			dst = append(dst, c)
		case ',':
			dst = append(dst, c)
			dst = p.newline(dst)
		case ':':
			dst = append(dst, c, ' ')
		case '\n':
			dst = append(dst, c)
		default:
			dst = p.open(dst)
			dst = append(dst, c)
			p.text = c == '"'
		}
	}
	return dst
}

// open breaks the line before the first member of a list or object.
func (p *indenter) open(dst []byte) []byte {
	if p.fresh {
		p.fresh = false
		dst = p.newline(dst)
	}
	return dst
}

func (p *indenter) newline(dst []byte) []byte {
	dst = append(dst, '\n')
	for range p.depth {
		dst = append(dst, "    "...)
	}
	return dst
}
