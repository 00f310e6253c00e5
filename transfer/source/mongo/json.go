package mongo

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// member is a member of a document or an element of an array, which has its number as name.
type member struct {
	name string
	raw  []byte // its value
}

// members yields what is directly in a document or an array. raw is valid JSON without
// white space around it.
func members(raw []byte) func(yield func(member) bool) {
	return func(yield func(member) bool) {
		rest := bytes.TrimLeft(raw[1:], space)
		for n := 0; rest[0] != '}' && rest[0] != ']'; n++ {
			m := member{}
			if raw[0] == '{' {
				end := textEnd(rest)
				m.name = unquote(rest[:end])
				rest = bytes.TrimLeft(rest[end:], space)
				rest = bytes.TrimLeft(rest[1:], space) // the colon
			} else {
				m.name = strconv.Itoa(n)
			}
			end := valueEnd(rest)
			m.raw = rest[:end]
			if !yield(m) {
				return
			}
			if rest = bytes.TrimLeft(rest[end:], space); rest[0] == ',' {
				rest = bytes.TrimLeft(rest[1:], space)
			}
		}
	}
}

const space = " \t\r\n"

// textEnd returns the length of the string that begins b.
func textEnd(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd returns the length of the value that begins b.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += textEnd(b[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of what a number or a word is in
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
}

// unquote returns the text of a string.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it is valid
	return s
}
