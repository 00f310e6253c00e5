package lineproto

import "iter"

// Line finds the end of a line, whose bytes may come in pieces. A line break within a
// string, or behind a backslash, does not end a line. This is the one place that knows the
// rule: code that splits line protocol by another rule turns a part of a string into
// a point. The zero value is at the beginning of a line.
type Line struct {
	begun   bool // something other than blanks has come
	comment bool
	escaped bool // by the latest byte
	fields  bool // a space has come
	quoted  bool
	// equals and commas count those in the fields that are not in strings. A quote begins
	// a string only in a value, so only if there are more of the former.
	equals, commas int
}

// End reads more bytes of the line. It returns how many of them belong to the line, with
// its line break, and whether that line break is among them.
func (l *Line) End(b []byte) (n int, ended bool) {
	for i, c := range b {
		if !l.begun && c != ' ' && c != '\t' && c != 0 {
			// InfluxDB looks for quotes in comments too, and one that opens a string there
			// swallows the lines behind it. Here a comment ends.
			l.begun, l.comment = true, c == '#'
		}
		switch {
		case l.escaped:
			l.escaped = false
		case c == '\n' && !l.quoted:
			return i + 1, true
		case l.comment:
		case c == '\\':
			l.escaped = true
		case c == ' ':
			l.fields = true
		case !l.fields:
		case c == '=' && !l.quoted:
			l.equals++
		case c == ',' && !l.quoted:
			l.commas++
		case c == '"' && l.equals > l.commas:
			l.quoted = !l.quoted
		}
	}
	return len(b), false
}

// Quoted reports whether what was read ends within a string.
func (l *Line) Quoted() bool { return l.quoted }

// Escaped reports whether what was read ends with a backslash, so that a line break would
// not end the line.
func (l *Line) Escaped() bool { return l.escaped }

// Lines yields the lines of a body with their line breaks. The last line has none if the
// body ends within it.
func Lines(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(body) > 0 {
			var l Line
			n, _ := l.End(body)
			if !yield(body[:n]) {
				return
			}
			body = body[n:]
		}
	}
}
