package tsi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/keyblock"
	"tsdbd/model"
)

func matcherOf(t *testing.T, re *regexp.Regexp) *valueMatcher {
	t.Helper()
	m, err := newValueMatcher(re, NewWork(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// endsAt is a context that ends when it is asked for the n-th time.
type endsAt struct {
	context.Context
	n, asked int
}

func (c *endsAt) Err() error {
	if c.asked++; c.asked >= c.n {
		return context.Canceled
	}
	return nil
}

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
		m := matcherOf(t, re)
		if m.empty != re.MatchString("") {
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
	m := matcherOf(t, re)
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
		var list []matchPlace
		if bytes := allocated(func() { list = places(tree) }); bytes > 32<<20 || len(list) > maxPlaces {
			t.Errorf("%.20s...: %d bytes for %d places", e, bytes, len(list))
		}
		m := matcherOf(t, re)
		for _, v := range []string{"", "a", "aab", "xb", "abc", "pppppppppppppppppppppppppppppppppppppppp"} {
			if got, want := m.matchString(v), re.MatchString(v); got != want {
				t.Errorf("%.20s... on %.20s...: %v, want %v", e, v, got, want)
			}
		}
	}
	if list := places(mustParse(t, "^"+strings.Repeat("a{1000}", 66)+"$")); len(list) > 1 || len(list) == 1 && !list[0].check {
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
	m := matcherOf(t, regexp.MustCompile("^"+strings.Repeat("(a?){1000}", 60)+"b$"))
	if m.match([]byte(strings.Repeat("a", 120)), 0) {
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
	if !m.match([]byte(strings.Repeat("a", 120)+"b"), 120) {
		t.Error("no match")
	}
}

// TestSelectStops ends the context in the midst of every kind of selection.
func TestSelectStops(t *testing.T) {
	const series = 300_000
	x, fs := newTestIndex(t), newFS()
	fill := func(from int) {
		for i := range series {
			x.AddSeries(model.SeriesID(from+i), fmt.Sprintf("m,h=host_%06d,k=%d", i, i%7))
		}
	}
	fill(1)
	s := x.Freeze()
	if _, err := s.WriteFile(fs, "db/1.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "db/1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(s, f)
	files := x.View()
	defer files.Release()
	y := newTestIndex(t)
	x = y
	fill(1)
	segments := y.View()
	defer segments.Release()
	match := func(e string) *model.TagExpr {
		return &model.TagExpr{Op: model.TagMatch, Key: "h", Regex: regexp.MustCompile(e)}
	}
	for _, c := range []struct {
		name  string
		v     *View
		where *model.TagExpr
		asks  int // within which it must ask
	}{
		{"dictionary", files, match("5$"), 4},
		{"column", segments, match("5$"), 4},
		{"equal", segments, &model.TagExpr{Op: model.TagEqual, Key: "k", Value: "3"}, 3},
		{"absent", segments, &model.TagExpr{Op: model.TagEqual, Key: "k"}, 3},
		{"many counters", files, match(strings.Repeat("(.?){1000}", 20) + "x"), 20},
	} {
		for n := 1; n <= c.asks; n++ {
			ctx := &endsAt{Context: t.Context(), n: n}
			set, err := c.v.Select(ctx, "m", c.where)
			if !errors.Is(err, context.Canceled) || set != nil {
				t.Errorf("%s: ended at ask %d: %v, %v", c.name, n, set, err)
			}
			if ctx.asked > n {
				t.Errorf("%s: went on after ask %d, to %d", c.name, n, ctx.asked)
			}
		}
	}
}

// TestMatcherLikeSelect compares the decisions by tags with the index.
func TestMatcherLikeSelect(t *testing.T) {
	r := newRand(t)
	x := newTestIndex(t)
	tagsOf := map[uint32]model.Tags{}
	for id := range uint32(300) {
		var tags model.Tags
		for _, k := range testKeys {
			if r.IntN(2) == 0 {
				tags = append(tags, model.Tag{Key: k, Value: randomValue(r)})
			}
		}
		tagsOf[id+1] = tags
		x.AddSeries(model.SeriesID(id+1), string(model.AppendSeriesKey(nil, "m", tags)))
	}
	v := x.View()
	defer v.Release()
	m := NewMatcher()
	for range 300 {
		e := randomExpr(r, 3)
		want, err := v.Select(t.Context(), "m", e)
		if err != nil {
			t.Fatal(err)
		}
		got := roaring.New()
		for id, tags := range tagsOf {
			ok, err := m.Match(e, tags, NewWork(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got.Add(id)
			}
		}
		if !got.Equals(want) {
			t.Fatalf("%s: %v, want %v", exprString(e), got, want)
		}
	}
	fresh := &model.TagExpr{Op: model.TagMatch, Key: "host", Regex: regexp.MustCompile("x")}
	if _, err := m.Match(fresh, nil, NewLimitedWork(t.Context(), 1<<20)); !errors.Is(err, ErrBudget) {
		t.Errorf("limited work compiles an expression: %v", err)
	}
	if _, err := m.Match(fresh, nil, NewWork(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := m.Match(fresh, model.Tags{{Key: "host", Value: strings.Repeat("y", 50)}}, NewLimitedWork(t.Context(), 40)); !errors.Is(err, ErrBudget) {
		t.Errorf("50 bytes in 40 steps: %v", err)
	}
}

func newTestIndex(t *testing.T) *Index {
	t.Helper()
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}
