package exposition

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"tsdbd/model"
)

// line is what is left of a line to read.
type line struct {
	opt    *Options
	rest   []byte
	labels model.Tags
}

// skip passes over blanks.
func (l *line) skip() { l.rest = bytes.TrimLeft(l.rest, " \t") }

// word reads up to a blank.
func (l *line) word() []byte {
	end := bytes.IndexAny(l.rest, " \t")
	if end < 0 {
		end = len(l.rest)
	}
	word := l.rest[:end]
	l.rest = l.rest[end:]
	l.skip()
	return word
}

// timestamp reads a word unless the line ends or has an exemplar there.
func (l *line) timestamp() []byte {
	if len(l.rest) == 0 || l.rest[0] == '#' {
		return nil
	}
	return l.word()
}

// metric reads the name of a metric, which may be quoted.
func (l *line) metric() (string, error) {
	if len(l.rest) > 0 && l.rest[0] == '"' {
		name, err := l.quoted()
		l.skip()
		return name, err
	}
	end := bytes.IndexAny(l.rest, " \t{")
	if end < 0 {
		end = len(l.rest)
	}
	name := string(l.rest[:end])
	if strings.ContainsAny(name, `"=,}`) {
		return "", errName
	}
	l.rest = l.rest[end:]
	l.skip()
	return name, nil
}

// braces reads labels, if there are any, into l.labels. A quoted text without a value
// is the name of the metric.
func (l *line) braces(name string) (string, error) {
	if len(l.rest) == 0 || l.rest[0] != '{' {
		return name, nil
	}
	for l.rest = l.rest[1:]; ; {
		l.skip()
		if len(l.rest) == 0 {
			return "", errBrace
		}
		if l.rest[0] == '}' {
			l.rest = l.rest[1:]
			l.skip()
			return name, nil
		}
		key, quoted, err := l.key()
		if err != nil {
			return "", err
		}
		l.skip()
		switch {
		case len(l.rest) > 0 && l.rest[0] == '=':
			l.rest = l.rest[1:]
			l.skip()
			value, err := l.quoted()
			if err != nil {
				return "", err
			}
			l.labels = append(l.labels, model.Tag{Key: key, Value: value})
		case !quoted:
			return "", errLabel
		case name != "":
			return "", errTwice
		default:
			name = key
		}
		l.skip()
		switch {
		case len(l.rest) == 0:
			return "", errBrace
		case l.rest[0] == ',':
			l.rest = l.rest[1:]
		case l.rest[0] != '}':
			return "", errComma
		}
	}
}

// key reads the name of a label.
func (l *line) key() (name string, quoted bool, err error) {
	if l.rest[0] == '"' {
		name, err = l.quoted()
		return name, true, err
	}
	end := bytes.IndexAny(l.rest, "= \t,}\"{")
	if end <= 0 {
		return "", false, errLabel
	}
	name = string(l.rest[:end])
	l.rest = l.rest[end:]
	return name, false, nil
}

// quoted reads a text in quotes.
func (l *line) quoted() (string, error) {
	if len(l.rest) == 0 || l.rest[0] != '"' {
		return "", errLabel
	}
	for i := 1; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case '"':
			text := string(l.rest[1:i])
			l.rest = l.rest[i+1:]
			return unescape(text), nil
		}
	}
	return "", errQuote
}

// unescape replaces the escapes of a text: \\, \" and \n. Others stay as they are.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(`\"n`, text[i+1]) >= 0 {
			if i++; text[i] == 'n' {
				b.WriteByte('\n')
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// number reads a value.
func number(word []byte) (float64, error) {
	if len(word) == 0 {
		return 0, errValue
	}
	text := string(word)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "pP_") { // forms that only Go has
		return 0, fmt.Errorf("%.50q is no value", text)
	}
	return v, nil
}
