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
	f("contains a backslash before ' '", `a\\b\ c`)
	f("contains a backslash before ','", "m", "a", `\a\,`)
	f("contains a backslash before '='", "m", `\=`, "1")
	f("", `C:\dir\"x"`, "a", `\\server\b`)
	f("contains a newline", "m\nx v=1")
	f("contains a newline", "m\\\\\nx")
	f("", "m\\\nx\\\\\\\n", "a\\\n", "\\\n\\\n1")
	f("comment", "#m")
	f("begins with a tab or a zero byte", "\tm")
	f("begins with a tab or a zero byte", "\x00m")
	f("", "m\xff", "a\xc3", "\t1", "b", "\x001\r\x7f\xed\xa0\x80")
	f("", "größe\u0085\u200b", "ключ", "\ufffd 値")
	f("invalid tag key", "m", "time", "1")
	f("duplicate tag", "m", "a", "1", "a", "2")
	f("is empty", "m", "", "1")
	f("is empty", "m", "a", "")
	f("ends in a backslash", "m", `a\`, "1")
	f("ends in a backslash", "m", "a", `1\`)
	f("contains a newline", "m", "a", "1 v=1\nx")
}

func TestUnstorableField(t *testing.T) {
	for c := range 256 {
		want := ""
		switch c {
		case '\t', 0:
			want = "begins with a tab or a zero byte"
		case '\n':
			want = "contains a newline"
		}
		if got := UnstorableField(string([]byte{byte(c), 'a'})); got != want {
			t.Errorf("%#x at the beginning: %q, want %q", c, got, want)
		}
		switch c {
		case '\t', 0:
			want = ""
		case '\\':
			want = "ends in a backslash"
		}
		if got := UnstorableField(string([]byte{'a', byte(c)})); got != want {
			t.Errorf("%#x at the end: %q, want %q", c, got, want)
		}
	}
}

// TestValidKey: the answers are those of models.ValidKeyTokens of InfluxDB 1.x.
func TestValidKey(t *testing.T) {
	for _, key := range []string{`m,h=a\ b~!`, "größe,ключ=値", "m,h=\u2028"[:4]} {
		if !ValidKey(key) {
			t.Errorf("%q is refused", key)
		}
	}
	for _, key := range []string{"m,h=a\xe4", "m\x00", "m,a\t=1", "m,a=1\r", "m,a=\x7f", "m\u0085", "m,a=\u00a0", "m,a=\ufffd", "m,a=\u2028", "m,a=\xed\xa0\x80"} {
		if ValidKey(key) {
			t.Errorf("%q is accepted", key)
		}
	}
}
