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
	f("control character", "m\nx v=1")
	f("comment", "#m")
	f("control character", "\tm")
	f("control character", "\x00m")
	f("not valid UTF-8", "m\xff")
	f(`measurement "m\xff" is not valid UTF-8`, "m\xff")
	f("not valid UTF-8", "m", "a\xc3", "1")
	f("not valid UTF-8", "m", "a", "\xed\xa0\x80") // half of a surrogate pair
	f("control character", "m", "a", "1\r")
	f("", "größe\u0085\u200b", "ключ", "\ufffd 値")
	f("invalid tag key", "m", "time", "1")
	f("duplicate tag", "m", "a", "1", "a", "2")
	f("is empty", "m", "", "1")
	f("is empty", "m", "a", "")
	f("ends in a backslash", "m", `a\`, "1")
	f("ends in a backslash", "m", "a", `1\`)
	f("control character", "m", "a", "1 v=1\nx")
}

func TestUnstorableText(t *testing.T) {
	for c := range 256 {
		for n := range 20 {
			for at := range n {
				b := []byte("abcdefghijklmnopqrst"[:n])
				b[at] = byte(c)
				want := ""
				switch {
				case c < ' ' || c == 0x7f:
					want = "contains a control character"
				case c > 0x7f:
					want = "is not valid UTF-8"
				}
				if got := UnstorableText(string(b)); got != want {
					t.Fatalf("%q: %q, want %q", b, got, want)
				}
			}
		}
	}
	for _, s := range []string{"", "é", "abcdefgé", "abcdefghé", "éabcdefgh\x7e", "日本語日本語"} {
		if got := UnstorableText(s); got != "" {
			t.Errorf("%q: %q", s, got)
		}
	}
	for _, s := range []string{"é\x7f", "éabcdefgh\t", "\tabcdefghé"} {
		if got := UnstorableText(s); got != "contains a control character" {
			t.Errorf("%q: %q", s, got)
		}
	}
}
