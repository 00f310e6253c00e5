package httpapi

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"tsdbd/query/admission"
)

const redacted = "[REDACTED]"

// gap is what may stand between two words of InfluxQL: blanks and comments.
const gap = `(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*`

// passwordText finds the password of CREATE USER ... WITH PASSWORD and of SET
// PASSWORD FOR ... = , quoted or not, closed or not: broken statements are
// logged too.
var passwordText = regexp.MustCompile(`(?is)(\bpassword\b(?:` + gap + `\bfor\b` + gap + `(?:"(?:[^"\\]|\\.)*"|[^\s=]+)` + gap + `=?)?` + gap +
	`)((?:'(?:[^'\\]|\\.)*'?)+|"(?:[^"\\]|\\.)*"?|[^\s;'"]+)`)

// literal is a quoted text, closed or not.
var literal = regexp.MustCompile(`(?s)'(?:[^'\\]|\\.)*'?`)

// RedactQuery replaces passwords in InfluxQL text, also those of URLs. Texts that are quoted behind
// a password are replaced too: in a statement that does not parse they may be
// the password.
func RedactQuery(q string) string {
	q = admission.RedactURLs(q)
	at := passwordText.FindStringIndex(q)
	if at == nil {
		return q
	}
	q = passwordText.ReplaceAllString(q, "${1}"+redacted)
	return q[:at[0]] + literal.ReplaceAllString(q[at[0]:], redacted)
}

// redactURL returns a URL's query for the log: credentials hidden, passwords
// in statements replaced, everything else as it came. Parameters that the server
// would not take, for their spelling, are hidden all the same.
func redactURL(raw string) string {
	if raw == "" {
		return ""
	}
	parts := strings.Split(raw, "&")
	for i, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		if strings.Contains(part, ";") {
			// Not escaped: nothing of it was read, and it may be all that follows.
			key, _, _ = strings.Cut(key, ";")
			parts[i] = key + "=" + redacted
			continue
		}
		switch strings.ToLower(unescapeAll(key)) {
		case "p", "u", "token", "password":
			parts[i] = key + "=" + redacted
		case "params":
			// Bound values may be passwords.
			if value != "" {
				parts[i] = key + "=" + redacted
			}
		default:
			q := unescapeAll(value)
			if clean := RedactQuery(q); clean != q {
				parts[i] = key + "=" + url.QueryEscape(clean)
			}
		}
	}
	return strings.Join(parts, "&")
}

// maxEscapes bounds how often a text is unescaped that was escaped several
// times.
const maxEscapes = 4

// unescapeAll returns the text that a part of a URL stands for. Escapes that are
// wrong stand for themselves.
func unescapeAll(s string) string {
	for range maxEscapes {
		plain := escape.ReplaceAllStringFunc(strings.ReplaceAll(s, "+", " "), func(e string) string {
			b, _ := strconv.ParseUint(e[1:], 16, 8)
			return string([]byte{byte(b)})
		})
		if plain == s {
			break
		}
		s = plain
	}
	return s
}

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
