package model

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FieldSeparatorLength is the length of what is between the series key and the field key
// of a column key, in bytes, as InfluxDB 1.x counts it.
const FieldSeparatorLength = 4

// Unstorable returns the reason why a measurement with these sorted tags cannot
// be stored, "" if it can. Every series that is stored can be written as line
// protocol, because exports and subscriptions are written in it.
func Unstorable(measurement string, tags Tags) string {
	switch reason := UnstorableName(measurement); {
	case reason != "":
		return fmt.Sprintf("measurement %q %s", measurement, reason)
	case measurement[0] == '#':
		return fmt.Sprintf("measurement %q begins as a comment", measurement)
	case blank(measurement[0]):
		return fmt.Sprintf("measurement %q %s", measurement, beginsBlank)
	}
	for i, t := range tags {
		if t.Key == "time" {
			return fmt.Sprintf("invalid tag key: input tag %q on measurement %q is invalid", t.Key, measurement)
		}
		if i > 0 && tags[i-1].Key == t.Key {
			return fmt.Sprintf("duplicate tag %q", t.Key)
		}
		for _, s := range []string{t.Key, t.Value} {
			if reason := UnstorableName(s); reason != "" {
				return fmt.Sprintf("tag %q of %q %s", t.Key, measurement, reason)
			}
		}
	}
	return ""
}

// UnstorableName returns the reason why a measurement, a tag key, a tag value,
// or a field key cannot be stored, "" if it can: line protocol cannot carry it.
// All other bytes are taken, as InfluxDB takes them: control characters, and
// bytes that are not UTF-8.
//
// InfluxDB reads a line of line protocol several times by rules that differ for
// a backslash before a separator, so that no spelling of such a name is safe. A
// newline ends the line unless a backslash stands before it, which is a part of
// the name then.
func UnstorableName(s string) string {
	if s == "" {
		return "is empty"
	}
	for rest := s; ; {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			break
		}
		if rest = rest[i+1:]; rest == "" {
			return "ends in a backslash"
		}
		if c := rest[0]; c == ',' || c == '=' || c == ' ' {
			return fmt.Sprintf("contains a backslash before %q", c)
		}
	}
	if strings.IndexByte(s, '\n') < 0 {
		return ""
	}
	escaped := false
	for i := range len(s) {
		if s[i] == '\n' && !escaped {
			return "contains a newline"
		}
		escaped = s[i] == '\\' && !escaped
	}
	return ""
}

// UnstorableField is UnstorableName of a field key. It may be the first of a
// line, where blanks before it are skipped.
func UnstorableField(s string) string {
	reason := UnstorableName(s)
	if reason == "" && blank(s[0]) {
		return beginsBlank
	}
	return reason
}

const beginsBlank = "begins with a tab or a zero byte"

// blank reports whether line protocol skips a byte before a measurement and before
// the fields, where no backslash keeps it.
func blank(c byte) bool { return c == '\t' || c == 0 }

// ValidKey reports whether InfluxDB's setting validate-keys lets a series be
// written: all characters of its key are printable.
func ValidKey(key string) bool {
	for i := 0; i < len(key); {
		if c := key[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(key[i:])
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
		i += n
	}
	return true
}

// ReservedTag says in InfluxDB's words why a series may not exist that has a tag
// named time, or "".
func ReservedTag(key, measurement string) string {
	if strings.Contains(key, ",time=") {
		_, tags := ParseSeriesKey(key, nil)
		for _, t := range tags {
			if t.Key == "time" {
				return fmt.Sprintf("invalid tag key: input tag %q on measurement %q is invalid", "time", measurement)
			}
		}
	}
	return ""
}
