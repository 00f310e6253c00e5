package history

import "strings"

// maxText bounds the text of a shape that is shown.
const maxText = 4096

// minDigits is how many digits a number has that is a time: a second of this century has 10,
// and a date has as many digits and dashes.
const minDigits = 10

// normal returns a text with ? in place of its literals of time. A long text is cut off in
// front of a word, because a part of a password would not be found.
func normal(text string) string {
	var b strings.Builder
	for text != "" && b.Len() <= maxText {
		start, end := literal(text)
		b.WriteString(text[:min(start, maxText+1)])
		if end > start {
			b.WriteByte('?')
		}
		text = text[end:]
	}
	s := b.String()
	if len(s) <= maxText {
		return s
	}
	return s[:strings.LastIndexAny(s[:maxText], " \t\n")+1] + "…"
}

// literal returns where the first literal of time of a text is: a number with a unit or
// without one, or a date with the time of day behind it. Without one both are the length of
// the text. Each has minDigits digits or dashes in a row, so one in minDigits bytes is looked at.
func literal(text string) (start, end int) {
	for i := minDigits - 1; i < len(text); i += minDigits {
		if classes[text[i]] < dash {
			continue
		}
		for start = i; start > 0 && classes[text[start-1]] >= dash; {
			start--
		}
		for end = i + 1; end < len(text) && classes[text[end]] >= dash; {
			end++
		}
		named := start > 0 && classes[text[start-1]] == letter // a part of a name
		for start < end && text[start] == '-' {
			start++
		}
		if run := text[start:end]; !named && (digits(run) >= minDigits || isDate(run)) {
			return start, tail(text, end)
		}
		i = end - 1
	}
	return len(text), len(text)
}

// tail returns where a literal ends of which text[:end] has the number or the date.
func tail(text string, end int) int {
	for end < len(text) && (classes[text[end]] != other || text[end] == ':' || text[end] == ' ' && digits(text[end+1:]) > 0) {
		end++
	}
	return end
}

// isDate reports whether a text begins with a date such as 2026-01-05.
func isDate(text string) bool {
	return len(text) >= minDigits && digits(text) == 4 && text[4] == '-' && digits(text[5:]) == 2 && text[7] == '-' && digits(text[8:]) == 2
}

// digits returns how many digits a text begins with.
func digits(text string) (n int) {
	for n < len(text) && classes[text[n]] == digit {
		n++
	}
	return n
}

// The classes of bytes.
const (
	other = iota
	letter
	dash
	digit
)

var classes = func() (c [256]uint8) {
	for b := range c {
		switch {
		case '0' <= b && b <= '9':
			c[b] = digit
		case b == '-':
			c[b] = dash
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '_', b == '.', b >= 0x80:
			c[b] = letter
		}
	}
	return c
}()
