package model

import (
	"fmt"
	"strings"
)

// FieldSeparatorLength is what stands between the series key and the field key
// of a column key, in bytes, as InfluxDB 1.x counts it.
const FieldSeparatorLength = 4

// Unstorable tells why a measurement and its sorted tags cannot be stored, ""
// if they can. What does not come as line protocol is to be sayable in it all
// the same: exports and subscriptions are written in it.
func Unstorable(measurement string, tags Tags) string {
	switch reason := UnstorableName(measurement); {
	case reason != "":
		return fmt.Sprintf("measurement %q %s", measurement, reason)
	case strings.IndexByte("#\t\x00", measurement[0]) >= 0:
		return fmt.Sprintf("measurement %q begins as a comment or a blank", measurement)
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

// UnstorableName tells what of a measurement, tag or field key line protocol
// cannot say, "" if it can.
func UnstorableName(s string) string {
	switch {
	case s == "":
		return "is empty"
	case s[len(s)-1] == '\\':
		return "ends in a backslash"
	case strings.IndexByte(s, '\n') >= 0:
		return "holds a newline"
	}
	return ""
}
