package tsi

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// valueMatcher says which values of a sorted dictionary a regular expression
// matches: a list of places to look at, and whether to look closer there.
type valueMatcher struct {
	places []matchPlace // sorted by prefix
	empty  bool         // the empty value matches
	all    bool         // every value matches
	dfa    *dfa
	re     *regexp.Regexp // used when dfa is nil
}

// matchPlace is a set of values: equal to prefix, or beginning with it.
type matchPlace struct {
	prefix string
	exact  bool
	check  bool // the expression must be run; else all of them match
}

// maxPlaces bounds the alternatives an expression is expanded into.
const maxPlaces = 512

// newValueMatcher analyses re, which must come from regexp.Compile.
func newValueMatcher(re *regexp.Regexp) *valueMatcher {
	m := &valueMatcher{re: re, empty: re.MatchString("")}
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		m.places = []matchPlace{{check: true}}
		return m
	}
	tree = tree.Simplify()
	prog, err := syntax.Compile(tree)
	if err != nil {
		m.places = []matchPlace{{check: true}}
		return m
	}
	// Without conditions an empty match is possible anywhere or nowhere.
	m.all = m.empty && !slices.ContainsFunc(prog.Inst, func(i syntax.Inst) bool { return i.Op == syntax.InstEmptyWidth })
	m.dfa = newDFA(prog)
	m.places = places(tree)
	return m
}

// match runs the expression over a value, see dfa.match.
func (m *valueMatcher) match(value []byte, shared int) bool {
	if m.dfa == nil {
		return m.re.Match(value)
	}
	return m.dfa.match(value, shared)
}

// matchString reports whether the expression matches a single value.
func (m *valueMatcher) matchString(value string) bool {
	if m.dfa == nil {
		return m.re.MatchString(value)
	}
	for _, p := range m.places {
		if p.exact {
			if value == p.prefix {
				return true
			}
		} else if strings.HasPrefix(value, p.prefix) && (!p.check || m.dfa.match([]byte(value), 0)) {
			return true
		}
	}
	return false
}

// beginning is what is known of the beginning of matching texts.
type beginning struct {
	text   string
	begun  bool // ^ stands before it: text is at the beginning of the value
	ended  bool // $ stands behind it
	closed bool // what follows is not known
}

// places turns an expression into the values that may match it.
func places(tree *syntax.Regexp) []matchPlace {
	list := expand(tree, []beginning{{}})
	out := make([]matchPlace, 0, len(list))
	for _, b := range list {
		switch {
		case !b.begun:
			return []matchPlace{{check: true}}
		case b.ended:
			// Behind $ only conditions can stand, which may fail.
			if b.closed {
				out = append(out, matchPlace{prefix: b.text, check: true})
			} else {
				out = append(out, matchPlace{prefix: b.text, exact: true})
			}
		default:
			out = append(out, matchPlace{prefix: b.text, check: b.closed})
		}
	}
	slices.SortFunc(out, func(a, b matchPlace) int { return strings.Compare(a.prefix, b.prefix) })
	return slices.Compact(out)
}

// expand appends to each beginning what re may match there. A nil result means
// that nothing matches.
func expand(re *syntax.Regexp, in []beginning) []beginning {
	if len(in) == 0 {
		return nil
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return nil
	case syntax.OpEmptyMatch:
		return in
	case syntax.OpCapture:
		return expand(re.Sub[0], in)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			in = expand(sub, in)
		}
		return in
	case syntax.OpAlternate:
		var out []beginning
		for _, sub := range re.Sub {
			out = append(out, expand(sub, slices.Clone(in))...)
		}
		return bounded(out, in)
	case syntax.OpQuest:
		return bounded(append(slices.Clone(in), expand(re.Sub[0], slices.Clone(in))...), in)
	case syntax.OpBeginText:
		return apply(in, func(b *beginning) bool {
			if b.text != "" {
				return false
			}
			b.begun = true
			return true
		})
	case syntax.OpEndText:
		return apply(in, func(b *beginning) bool {
			b.ended = true
			return true
		})
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 || slices.Contains(re.Rune, utf8.RuneError) {
			break
		}
		return appendText(in, string(re.Rune))
	case syntax.OpCharClass:
		n := 0
		for i := 0; i < len(re.Rune); i += 2 {
			n += int(re.Rune[i+1]-re.Rune[i]) + 1
			if n > 16 || re.Rune[i] <= utf8.RuneError && utf8.RuneError <= re.Rune[i+1] {
				return closeAll(in)
			}
		}
		var out []beginning
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				out = append(out, appendText(slices.Clone(in), string(r))...)
			}
		}
		return bounded(out, in)
	}
	return closeAll(in)
}

// apply changes the beginnings that are not closed and drops those for which
// fn returns false.
func apply(in []beginning, fn func(b *beginning) bool) []beginning {
	out := in[:0:0]
	for _, b := range in {
		if b.closed || fn(&b) {
			out = append(out, b)
		}
	}
	return out
}

func appendText(in []beginning, text string) []beginning {
	return apply(in, func(b *beginning) bool {
		if b.ended && text != "" {
			return false
		}
		b.text += text
		return true
	})
}

func closeAll(in []beginning) []beginning {
	return apply(in, func(b *beginning) bool {
		b.closed = true
		return true
	})
}

// bounded returns out, or the closed in if there is too much of it.
func bounded(out, in []beginning) []beginning {
	if len(out) > maxPlaces {
		return closeAll(in)
	}
	return out
}
