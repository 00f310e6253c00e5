package model

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"
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
// or a field key cannot be stored, "" if it can. InfluxDB reads a line of line
// protocol several times by rules that differ for a backslash before a
// separator, so that no spelling of such a name is safe.
func UnstorableName(s string) string {
	if s == "" {
		return "is empty"
	}
	for rest := s; ; {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			return UnstorableText(s)
		}
		if rest = rest[i+1:]; rest == "" {
			return "ends in a backslash"
		}
		if c := rest[0]; c == ',' || c == '=' || c == ' ' {
			return fmt.Sprintf("contains a backslash before %q", c)
		}
	}
}

// UnstorableText returns the reason why a name that contains s cannot be
// stored, "" if it can. The rule is the same for all names: measurements, tags,
// field keys, databases, retention policies, users, continuous queries, and
// subscriptions. They are valid UTF-8 without ASCII control characters, so that
// every statement can name what is stored and every answer shows it as it is.
func UnstorableText(s string) string {
	const low, high = 0x0101010101010101, 0x8080808080808080
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	ascii := true
	for len(b) >= 8 {
		// A byte below 0x20 borrows in the subtraction, 0x7f carries in the
		// addition, and 0x80 and above have the bit already.
		x := binary.LittleEndian.Uint64(b)
		if (x|(x-0x20*low)|(x+low))&high != 0 {
			break
		}
		b = b[8:]
	}
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return "contains a control character"
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii && !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	return ""
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
