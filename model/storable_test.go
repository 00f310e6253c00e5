package model

import (
	"strings"
	"testing"
)

func TestUnstorable(t *testing.T) {
	f := func(want, measurement string, pairs ...string) {
		t.Helper()
		var tags Tags
		for i := 0; i < len(pairs); i += 2 {
			tags = append(tags, Tag{Key: pairs[i], Value: pairs[i+1]})
		}
		got := Unstorable(measurement, tags)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q %v: %q, want %q", measurement, tags, got, want)
		}
	}
	f("", "m")
	f("", `a\b c,d=e"f#`, "a", "1", "b", `x\y ,="`)
	f("is empty", "")
	f("ends in a backslash", `m\`)
	f("holds a newline", "m\nx v=1")
	f("comment", "#m")
	f("blank", "\tm")
	f("blank", "\x00m")
	f("invalid tag key", "m", "time", "1")
	f("duplicate tag", "m", "a", "1", "a", "2")
	f("is empty", "m", "", "1")
	f("is empty", "m", "a", "")
	f("ends in a backslash", "m", `a\`, "1")
	f("ends in a backslash", "m", "a", `1\`)
	f("holds a newline", "m", "a", "1 v=1\nx")
}
