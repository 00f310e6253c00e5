// Package redact takes passwords and other credentials out of what goes to the log.
package redact

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"tsdbd/query/admission"
)

const redacted = "[REDACTED]"

// gap matches blanks and comments between two words of InfluxQL.
const gap = `(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*`

// passwordText matches the password of CREATE USER ... WITH PASSWORD and of SET
// PASSWORD FOR ... = . The quotes may be missing or not closed, because broken
// statements are logged too.
var passwordText = regexp.MustCompile(`(?is)(\bpassword\b(?:` + gap + `\bfor\b` + gap + `(?:"(?:[^"\\]|\\.)*"|[^\s=]+)` + gap + `=?)?` + gap +
	`)((?:'(?:[^'\\]|\\.)*'?)+|"(?:[^"\\]|\\.)*"?|[^\s;'"]+)`)

// literal matches a quoted text. The closing quote may be missing.
var literal = regexp.MustCompile(`(?s)'(?:[^'\\]|\\.)*'?`)

// Query replaces passwords in InfluxQL text and in its URLs. It also replaces
// quoted texts behind a password: in a statement that does not parse they may be
// the password.
func Query(q string) string {
	q = admission.RedactURLs(q)
	at := passwordText.FindStringIndex(q)
	if at == nil {
		return q
	}
	q = passwordText.ReplaceAllString(q, "${1}"+redacted)
	return q[:at[0]] + literal.ReplaceAllString(q[at[0]:], redacted)
}

// URL returns the query of a URL for the log, without credentials and without
// passwords of statements. It also hides credentials in parameters whose spelling
// the server does not accept.
func URL(raw string) string {
	if raw == "" {
		return ""
	}
	parts := strings.Split(raw, "&")
	for i, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		if strings.Contains(part, ";") {
			// The semicolon is not escaped: the server ignores the parameter, and
			// its value may continue behind the semicolon.
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
			if clean := Query(q); clean != q {
				parts[i] = key + "=" + url.QueryEscape(clean)
			}
		}
	}
	return strings.Join(parts, "&")
}

// maxEscapes bounds how often unescapeAll unescapes a text.
const maxEscapes = 4

// unescapeAll unescapes a part of a URL, repeatedly if it was escaped repeatedly.
// It keeps invalid escapes.
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
