package match

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/keyblock"
	"tsdbd/internal/testkit/tags"
	"tsdbd/internal/testkit/testseed"
)

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Of(t), 0))
}

func matcherOf(t *testing.T, re *regexp.Regexp) *Values {
	t.Helper()
	m, err := NewValues(re, NewWork(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRegexLikeGo(t *testing.T) {
	r := newRand(t)
	var values []string
	for range 400 {
		values = append(values, tags.Value(r))
	}
	values = append(values, "", "\n", "a\n", "\na", "long\n", "x", "xx", "é", "\xc3", "\xc3\xa9\xc3", "a\xffb", "_", "v1 v2")
	slices.Sort(values)
	values = slices.Compact(values)
	exprs := slices.Clone(tags.Regexes)
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
		m := matcherOf(t, re)
		if m.Empty != re.MatchString("") {
			t.Fatalf("%q: empty", e)
		}
		prev := ""
		for _, v := range values {
			want := re.MatchString(v)
			if got := m.dfa.match([]byte(v), keyblock.SharedPrefix(prev, v)); got != want {
				t.Fatalf("%q on %q after %q: %v, want %v", e, v, prev, got, want)
			}
			prev = v
		}
		for _, v := range values {
			if got, want := m.MatchString(v), re.MatchString(v); got != want {
				t.Fatalf("%q on %q: matchString %v, want %v (%+v)", e, v, got, want, m.Places)
			}
			if m.All && !re.MatchString(v) {
				t.Fatalf("%q is said to match everything, not %q", e, v)
			}
		}
	}
}

// TestDFAManyStates runs an expression with more states than are kept.
func TestDFAManyStates(t *testing.T) {
	re := regexp.MustCompile("(?:a|b)*a(?:a|b){14}c")
	m := matcherOf(t, re)
	r := newRand(t)
	for range 3000 {
		v := make([]byte, 60)
		for i := range v {
			v[i] = "abbac"[r.IntN(4+r.IntN(2))]
		}
		if got, want := m.Match(v, 0), re.Match(v); got != want {
			t.Fatalf("%q: %v", v, got)
		}
	}
	if len(m.dfa.states) > dfaStates {
		t.Fatalf("%d states", len(m.dfa.states))
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestExpansionBounded expands short expressions that stand for long texts and
// for many.
func TestExpansionBounded(t *testing.T) {
	wide := "(" + strings.Repeat("(a|b|[c-k])?", 9) + ")"
	for _, e := range []string{
		strings.Repeat("a{1000}", 60),
		"^" + strings.Repeat("a{1000}", 60),
		"^" + strings.Repeat("a{1000}", 70) + "$",
		"^(x|" + strings.Repeat("a{1000}", 40) + ")b",
		"^" + strings.Repeat("a?", 900),
		"^" + strings.Repeat("[a-p]", 40),
		"^(" + wide + "|" + wide + "|" + wide + ")" + wide,
		"^(" + strings.Repeat("[a-p][a-p]|b[a-p]?|", 2000) + "c)d",
	} {
		re := regexp.MustCompile(e)
		tree := mustParse(t, e)
		var list []Place
		if bytes := allocated(func() { list = places(tree) }); bytes > 32<<20 || len(list) > maxPlaces {
			t.Errorf("%.20s...: %d bytes for %d places", e, bytes, len(list))
		}
		m := matcherOf(t, re)
		for _, v := range []string{"", "a", "aab", "xb", "abc", "pppppppppppppppppppppppppppppppppppppppp"} {
			if got, want := m.MatchString(v), re.MatchString(v); got != want {
				t.Errorf("%.20s... on %.20s...: %v, want %v", e, v, got, want)
			}
		}
	}
	if list := places(mustParse(t, "^"+strings.Repeat("a{1000}", 66)+"$")); len(list) > 1 || len(list) == 1 && !list[0].Check {
		t.Errorf("places of a text that no key can hold: %d", len(list))
	}
}

func mustParse(t *testing.T, e string) *syntax.Regexp {
	t.Helper()
	tree, err := syntax.Parse(e, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	return tree.Simplify()
}

// TestDFAMemory runs an expression whose states have very many counters.
func TestDFAMemory(t *testing.T) {
	if testseed.Race {
		t.Skip("ten seconds of one goroutine")
	}
	m := matcherOf(t, regexp.MustCompile("^"+strings.Repeat("(a?){1000}", 60)+"b$"))
	if m.Match([]byte(strings.Repeat("a", 120)), 0) {
		t.Error("a match without b")
	}
	held := 0
	seen := map[*dfaState]bool{nil: true}
	for _, s := range append(slices.Collect(maps.Values(m.dfa.states)), m.dfa.trail...) {
		if !seen[s] {
			held += 4 * len(s.counters)
			seen[s] = true
		}
	}
	if held > 2*dfaBytes {
		t.Errorf("the states hold %d bytes", held)
	}
	if !m.Match([]byte(strings.Repeat("a", 120)+"b"), 120) {
		t.Error("no match")
	}
}

// FuzzRegex compares the automaton with package regexp.
func FuzzRegex(f *testing.F) {
	for _, e := range tags.Regexes {
		f.Add(e, "host_12", "host_1x")
		f.Add(e, "日本", "línea\nzwei")
	}
	f.Fuzz(func(t *testing.T, expr, a, b string) {
		if len(expr) > 100 {
			return
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return
		}
		m, err := NewValues(re, NewWork(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		prev := ""
		for _, v := range []string{a, b, a + b, b, ""} {
			want := re.MatchString(v)
			if got := m.Match([]byte(v), keyblock.SharedPrefix(prev, v)); got != want {
				t.Fatalf("%q on %q after %q: %v", expr, v, prev, got)
			}
			if got := m.MatchString(v); got != want {
				t.Fatalf("%q on %q: matchString %v, places %+v", expr, v, got, m.Places)
			}
			prev = v
		}
	})
}
