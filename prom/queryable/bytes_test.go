package queryable

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/prometheus/storage"
)

// TestBytes: names and values that are not UTF-8 are told apart, and found by what the
// answer has and by their bytes.
func TestBytes(t *testing.T) {
	const (
		m  = "{__name__=\"m\\\\xE4\", h=\"a\\\\xE4\"} 1@10\n"
		mf = "{__name__=\"m\\\\xE4_f\\\\xFF\", h=\"a\\\\xE4\"} 2@10\n"
		a4 = "{__name__=\"n\", \"h\\\\xC3\"=\"\\\\xE4\"} 1@10\n"
		a5 = "{__name__=\"n\", \"h\\\\xC3\"=\"\\\\xE5\"} 2@10\n"
		u  = "{__name__=\"n\", \"h\\\\xC3\"=\"ä\\x00\"} 3@10\n"
	)
	s, _ := newSource(t, "m\xe4,h=a\xe4 value=1,f\xff=2 10000000\nn,h\xc3=\xe4 value=1 10000000\nn,h\xc3=\xe5 value=2 10000000\nn,h\xc3=ä\x00 value=3 10000000\n")
	for _, c := range []struct{ selector, want string }{
		{`{__name__="m\\xE4"}`, m},
		{`{__name__=~"m\\\\xE4"}`, m},
		{`{__name__=~"m\\\\xE4.*"}`, m + mf},
		{`{__name__=~"m.+"}`, m + mf},
		{`{__name__=~"m\\\\xE4|n",h="a\\xE4"}`, m},
		{`{__name__="m\\xE4_f\\xFF"}`, mf},
		{`{__name__="m\\xE5"}`, ""},
		{`{__name__=~".+",h="a\\xE4"}`, m + mf},
		{`{__name__=~".+",h="a\xE4"}`, m + mf},
		{`{__name__=~".+",h=~"a."}`, m + mf},
		{`n`, a4 + a5 + u},
		{`n{"h\\xC3"="\\xE4"}`, a4},
		{`n{"h\\xC3"!="\\xE4"}`, a5 + u},
		{`n{"h\\xC3"=~"\\\\xE4|\\\\xE5"}`, a4 + a5},
		{`n{"h\\xC3"!~"\\\\xE4|\\\\xE5"}`, u},
		{`n{"h\\xC3"="ä\u0000"}`, u},
	} {
		if got, err := selected(t, s, 0, 100, nil, c.selector); err != nil || got != c.want {
			t.Errorf("%s: %v\n%swant\n%s", c.selector, err, got, c.want)
		}
	}
	q, err := s.Querier(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, c := range []struct{ name, want string }{
		{"", `["__name__" "h" "h\\xC3"]`},
		{"__name__", `["m\\xE4" "m\\xE4_f\\xFF" "n"]`},
		{"h", `["a\\xE4"]`},
		{`h\xC3`, `["\\xE4" "\\xE5" "ä\x00"]`},
	} {
		var got []string
		if c.name == "" {
			got, _, err = q.LabelNames(t.Context(), nil)
		} else {
			got, _, err = q.LabelValues(t.Context(), c.name, &storage.LabelHints{})
		}
		if text := fmt.Sprintf("%q", got); err != nil || text != c.want || !utf8.ValidString(strings.Join(got, "")) {
			t.Errorf("%s: %v %s, want %s", c.name, err, text, c.want)
		}
	}
}
