package tsi

import (
	"regexp"
	"slices"
	"testing"
)

func TestRegexLikeGo(t *testing.T) {
	r := newRand(t)
	var values []string
	for range 400 {
		values = append(values, randomValue(r))
	}
	values = append(values, "", "\n", "a\n", "\na", "long\n", "x", "xx", "é", "\xc3", "\xc3\xa9\xc3", "a\xffb", "_", "v1 v2")
	slices.Sort(values)
	values = slices.Compact(values)
	exprs := slices.Clone(testRegexes)
	atoms := []string{"a", "v", "1", "_", ".", "\\d", "[a-v]", "[^o]", "é", "日", "^", "$", "\\b", "\\B", "(?i:EU)", "host", "\\A", "\\z", "(?m:^)", "(?m:$)", "\\s", "\\x{FFFD}"}
	for range 1500 {
		var e string
		for range r.IntN(5) + 1 {
			a := atoms[r.IntN(len(atoms))]
			switch r.IntN(6) {
			case 0:
				a = "(?:" + a + ")" + []string{"*", "+", "?", "{2}", "{0,2}"}[r.IntN(5)]
			case 1:
				a = "(" + a + "|" + atoms[r.IntN(len(atoms))] + ")"
			}
			e += a
		}
		exprs = append(exprs, e)
	}
	for _, e := range exprs {
		re, err := regexp.Compile(e)
		if err != nil {
			continue
		}
		m := newValueMatcher(re)
		if m.empty != re.MatchString("") {
			t.Fatalf("%q: empty", e)
		}
		prev := ""
		for _, v := range values {
			want := re.MatchString(v)
			if got := m.dfa.match([]byte(v), sharedPrefix(prev, v)); got != want {
				t.Fatalf("%q on %q after %q: %v, want %v", e, v, prev, got, want)
			}
			prev = v
		}
		for _, v := range values {
			if got, want := m.matchString(v), re.MatchString(v); got != want {
				t.Fatalf("%q on %q: matchString %v, want %v (%+v)", e, v, got, want, m.places)
			}
			if m.all && !re.MatchString(v) {
				t.Fatalf("%q is said to match everything, not %q", e, v)
			}
		}
	}
}

// TestDFAManyStates runs an expression with more states than are kept.
func TestDFAManyStates(t *testing.T) {
	re := regexp.MustCompile("(?:a|b)*a(?:a|b){14}c")
	m := newValueMatcher(re)
	r := newRand(t)
	for range 3000 {
		v := make([]byte, 60)
		for i := range v {
			v[i] = "abbac"[r.IntN(4+r.IntN(2))]
		}
		if got, want := m.match(v, 0), re.Match(v); got != want {
			t.Fatalf("%q: %v", v, got)
		}
	}
	if len(m.dfa.states) > dfaStates {
		t.Fatalf("%d states", len(m.dfa.states))
	}
}
