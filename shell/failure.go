package shell

import (
	"encoding/json"
	"strings"
)

// failure looks for an error in an answer that is written to it in parts, and keeps
// little of the answer. In JSON an error is a member "error" of the answer or of one of
// its results. In CSV the answer to a request with an error is a table with the one
// column "error".
type failure struct {
	begin  []byte // of the answer
	depth  int    // of objects and arrays of JSON
	quoted bool   // in a string of JSON
	escape bool   // behind a backslash in it
	text   []byte // the string of JSON, as far as it is needed
	member bool   // JSON has a member "error"
	value  bool   // the next string is its value
	said   string // the value of the first
}

const errorName = "error"

// maxSaid is how much of the text of an error is kept.
const maxSaid = 1 << 10

// resultDepth is the depth of the members of a result: {"results":[{"error":
const resultDepth = 3

func (f *failure) Write(p []byte) (int, error) {
	if n := maxSaid - len(f.begin); n > 0 {
		f.begin = append(f.begin, p[:min(n, len(p))]...)
	}
	for _, c := range p {
		switch {
		case f.quoted && (f.escape || c != '"'):
			f.escape = c == '\\' && !f.escape
			if len(f.text) <= len(errorName) || f.value && len(f.text) < maxSaid {
				f.text = append(f.text, c)
			}
		case f.quoted:
			f.quoted = false
			if f.value {
				f.said, f.value = unquote(f.text), false
			}
		case c == '"':
			f.quoted, f.text = true, f.text[:0]
		case c == '{' || c == '[':
			f.depth++
		case c == '}' || c == ']':
			f.depth--
		case c == ':':
			if (f.depth == 1 || f.depth == resultDepth) && string(f.text) == errorName {
				f.value, f.member = !f.member, true
			}
		}
	}
	return len(p), nil
}

// unquote returns the text of a string of JSON without its quotes, as it is if it was cut.
func unquote(b []byte) string {
	text := string(b)
	if json.Unmarshal([]byte(`"`+text+`"`), &text) != nil {
		return string(b)
	}
	return text
}

// found returns the text of the answer's error, and whether it has one. The answer is of
// the media type.
func (f *failure) found(media string) (string, bool) {
	switch media {
	case "application/csv":
		if text, ok := strings.CutPrefix(string(f.begin), errorName+"\n"); ok {
			return strings.TrimSpace(text), true
		}
		return "", false
	case lines: // an error is the status of the answer
		return "", false
	}
	return f.said, f.member
}
