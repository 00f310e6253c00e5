package match

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/keyblock"
	"tsdbd/internal/testkit/script"
	"tsdbd/model"
)

// TestScripts runs the stories of testdata: where a regular expression sends a walk
// over sorted values, and what it matches there. -rewrite writes the answers.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		return func(c script.Command) []string { return run(t, c) }
	})
}

func run(t *testing.T, c script.Command) (lines []string) {
	switch c.Name {
	case "places": // of the expressions of the input
		for _, e := range c.Input {
			lines = append(lines, fmt.Sprintf("%-22s %s", e, placesOf(matcherOf(t, regexp.MustCompile(e)))))
		}
	case "match": // the values of the input, one after the other
		re := regexp.MustCompile(c.Args[0])
		m := matcherOf(t, re)
		prior := ""
		for _, quoted := range c.Input {
			v, err := strconv.Unquote(`"` + quoted + `"`)
			if err != nil {
				t.Fatal(err)
			}
			got := m.Match([]byte(v), keyblock.SharedPrefix(prior, v))
			if want := re.MatchString(v); got != want || m.MatchString(v) != want {
				t.Errorf("%s on %q: %v, package regexp %v", re, v, got, want)
			}
			lines = append(lines, fmt.Sprintf("%-8s %v", quoted, got))
			prior = v
		}
		lines = append(lines, fmt.Sprintf("%d states", len(m.dfa.states)))
	default:
		t.Fatalf("no command %s", c.Name)
	}
	return lines
}

// placesOf writes the places: a value in quotes, a prefix with * behind it, and with ?
// if what begins with it must be matched.
func placesOf(m *Values) string {
	words := []string{}
	for _, p := range m.Places {
		w := strconv.Quote(p.Prefix)
		if !p.Exact {
			w += "*"
		}
		if p.Check {
			w += "?"
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		words = append(words, "nowhere")
	}
	if m.Empty {
		words = append(words, "and the empty value")
	}
	if m.All {
		words = append(words, "that is all")
	}
	return strings.Join(words, " ")
}

// TestWorkStops ends what counts steps: at a limit, and when the context ends.
func TestWorkStops(t *testing.T) {
	re := regexp.MustCompile("(a|b)*c$")
	long := []byte(strings.Repeat("ab", 1000) + "c")
	if _, err := NewValues(re, NewLimitedWork(t.Context(), 3)); !errors.Is(err, ErrBudget) {
		t.Errorf("an expression of more steps than allowed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		work *Work
		stop func()
		want error
	}{
		"limit":   {NewLimitedWork(t.Context(), 1500), func() {}, ErrBudget},
		"context": {NewWork(ctx), cancel, context.Canceled},
	} {
		m, err := NewValues(re, c.work)
		if err != nil || !m.Match([]byte("abc"), 0) || c.work.Err() != nil {
			t.Fatalf("%s: before the stop: %v, %v", name, err, c.work.Err())
		}
		c.stop()
		for range 1 + workSteps/len(long) {
			m.Match(long, 0)
		}
		if !errors.Is(c.work.Err(), c.want) || m.Match([]byte("abc"), 0) {
			t.Errorf("%s: %v, and a stopped matcher must match nothing", name, c.work.Err())
		}
	}
}

// TestMatcherLikeExpr decides predicates over one series as model.TagExpr does, and
// compiles each expression once, or not at all if its steps are limited.
func TestMatcherLikeExpr(t *testing.T) {
	eu := regexp.MustCompile("^eu-")
	isEU := &model.TagExpr{Op: model.TagMatch, Key: "region", Regex: eu}
	notEU := &model.TagExpr{Op: model.TagNotMatch, Key: "region", Regex: eu}
	hostA := &model.TagExpr{Op: model.TagEqual, Key: "host", Value: "a"}
	m := NewMatcher()
	for _, tags := range []model.Tags{
		nil,
		{{Key: "host", Value: "a"}},
		{{Key: "host", Value: "a"}, {Key: "region", Value: "eu-1"}},
		{{Key: "host", Value: "b"}, {Key: "region", Value: "us-eu-1"}},
	} {
		for name, e := range map[string]*model.TagExpr{
			"match": isEU, "not match": notEU, "equal": hostA,
			"and": {Op: model.TagAnd, Left: hostA, Right: isEU},
			"or":  {Op: model.TagOr, Left: hostA, Right: notEU},
		} {
			if got, err := m.Match(e, tags, NewWork(t.Context())); err != nil || got != e.Match(tags) {
				t.Errorf("%s of %v: %v, %v", name, tags, got, err)
			}
		}
	}
	if len(m.regexes) != 1 {
		t.Errorf("%d compiled expressions", len(m.regexes))
	}
	if ok, err := m.Match(nil, nil, NewWork(t.Context())); !ok || err != nil {
		t.Errorf("no predicate: %v, %v", ok, err)
	}
	if _, err := NewMatcher().Match(isEU, nil, NewLimitedWork(t.Context(), 1<<20)); !errors.Is(err, ErrBudget) {
		t.Errorf("limited work compiles an expression: %v", err)
	}
}
