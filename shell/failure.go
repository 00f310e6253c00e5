package shell

// failure looks for an error in an answer that is written to it in parts, and keeps
// nothing of the answer. In JSON an error is a member "error" of the answer or of one of
// its results. In CSV the answer to a request with an error is a table with the one
// column "error".
type failure struct {
	begin  []byte // of the answer
	depth  int    // of objects and arrays of JSON
	quoted bool   // in a string of JSON
	escape bool   // behind a backslash in it
	text   []byte // the string of JSON, as far as it is that of an error
	member bool   // JSON has a member "error"
}

const errorName = "error"

// resultDepth is the depth of the members of a result: {"results":[{"error":
const resultDepth = 3

func (f *failure) Write(p []byte) (int, error) {
	if n := len(errorName) + 1 - len(f.begin); n > 0 {
		f.begin = append(f.begin, p[:min(n, len(p))]...)
	}
	for _, c := range p {
		switch {
		case f.escape:
			f.escape = false
		case f.quoted && c == '\\':
			f.escape = true
		case f.quoted && c == '"':
			f.quoted = false
		case f.quoted:
			if len(f.text) <= len(errorName) {
				f.text = append(f.text, c)
			}
		case c == '"':
			f.quoted, f.text = true, f.text[:0]
		case c == '{' || c == '[':
			f.depth++
		case c == '}' || c == ']':
			f.depth--
		case c == ':':
			if (f.depth == 1 || f.depth == resultDepth) && string(f.text) == errorName {
				f.member = true
			}
		}
	}
	return len(p), nil
}

// found reports whether the answer, which is of the media type, has an error.
func (f *failure) found(media string) bool {
	switch media {
	case "application/csv":
		return string(f.begin) == errorName+"\n"
	case lines: // an error is the status of the answer
		return false
	}
	return f.member
}
