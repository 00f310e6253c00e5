package prom

import (
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789ABCDEF"

// Text returns a name or a value as Prometheus' protocols have it, whose texts are UTF-8:
// a byte that belongs to no character becomes \x and two hexadecimal digits, such as \xE4.
// UTF-8 stays as it is. In other texts a backslash that would begin such an escape becomes
// \x5C, so that two of them stay different.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		_, escape := escaped(s)
		if r == utf8.RuneError && n == 1 || escape {
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[s[0]>>4])
			b.WriteByte(hexDigits[s[0]&15])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Raw returns the text other than s that Text turns into s, if there is one.
func Raw(s string) (raw string, ok bool) {
	if !strings.Contains(s, `\x`) {
		return "", false
	}
	var b []byte
	for rest := s; rest != ""; {
		if c, ok := escaped(rest); ok {
			b = append(b, c)
			rest = rest[len(`\xE4`):]
			continue
		}
		b = append(b, rest[0])
		rest = rest[1:]
	}
	raw = string(b)
	return raw, raw != s && Text(raw) == s
}

// escaped returns the byte of the escape that s begins with.
func escaped(s string) (c byte, ok bool) {
	if len(s) < len(`\xE4`) || s[0] != '\\' || s[1] != 'x' {
		return 0, false
	}
	high, low := strings.IndexByte(hexDigits, s[2]), strings.IndexByte(hexDigits, s[3])
	if high < 0 || low < 0 {
		return 0, false
	}
	c = byte(high<<4 | low)
	return c, c >= utf8.RuneSelf || c == '\\'
}
