package prom

import (
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ raw, text string }{
		{"", ""},
		{"größe\n\x00 C:\\x86 \ufffd \\xE4", "größe\n\x00 C:\\x86 \ufffd \\xE4"}, // UTF-8
		{"\xe4", `\xE4`},
		{"a\xffb\xed\xa0\x80é", `a\xFFb\xED\xA0\x80é`},
		{`\xE4` + "\xe4", `\x5CxE4\xE4`},
		{`\x5C\x41\xe4\` + "\xe4", `\x5Cx5C\x41\xe4\\xE4`},
	} {
		if got := Text(c.raw); got != c.text {
			t.Errorf("Text(%q) = %q, want %q", c.raw, got, c.text)
		}
		raw, ok := Raw(c.text)
		if want := c.raw != c.text; ok != want && c.text != "größe\n\x00 C:\\x86 \ufffd \\xE4" || ok && want && raw != c.raw {
			t.Errorf("Raw(%q) = %q, %v", c.text, raw, ok)
		}
	}
	for _, s := range []string{`\x41`, `\xe4`, `\x5C`, `\xE`, `\x5CxE4`, `\xC3\xA4`} {
		if raw, ok := Raw(s); ok {
			t.Errorf("Raw(%q) = %q", s, raw)
		}
	}
}

// FuzzText: texts are UTF-8, and Raw finds what they were.
func FuzzText(f *testing.F) {
	f.Add(`\xE4` + "\xe4")
	f.Fuzz(func(t *testing.T, s string) {
		text := Text(s)
		if !utf8.ValidString(text) {
			t.Fatalf("Text(%q) = %q", s, text)
		}
		if raw, ok := Raw(text); text != s && (!ok || raw != s) {
			t.Fatalf("Text(%q) = %q, which is of %q", s, text, raw)
		}
	})
}
