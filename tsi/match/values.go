package match

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"tsdbd/model"
)

// Values says which values of a sorted dictionary a regular expression
// matches: a list of places to look at, and whether to look closer there. One
// goroutine may use it.
type Values struct {
	Places []Place // sorted by prefix
	Empty  bool    // the empty value matches
	All    bool    // every value matches
	dfa    *dfa
}

// Place is a set of values: equal to Prefix, or beginning with it.
type Place struct {
	Prefix string
	Exact  bool
	Check  bool // Match must be asked; else all of them match
}

// Bounds of the expansion of an expression: the alternatives, and the bytes
// and nodes that it looks at.
const (
	maxPlaces    = 512
	maxExpansion = 1 << 20
)

// NewValues analyses re, which must come from regexp.Compile. Its steps
// are counted in work; a matcher that work has stopped matches nothing.
func NewValues(re *regexp.Regexp, work *Work) (*Values, error) {
	m := &Values{}
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", err)
	}
	tree = tree.Simplify()
	prog, err := syntax.Compile(tree)
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", err)
	}
	work.Done(len(prog.Inst))
	m.dfa = newDFA(prog, work)
	m.Empty = m.dfa.match(nil, 0)
	// Without conditions an empty match is possible anywhere or nowhere.
	m.All = m.Empty && !slices.ContainsFunc(prog.Inst, func(i syntax.Inst) bool { return i.Op == syntax.InstEmptyWidth })
	m.Places = places(tree)
	return m, work.err
}

// use counts the steps of what follows in work.
func (m *Values) use(work *Work) { m.dfa.work = work }

// Match reports whether the expression matches in value, whose first shared bytes
// are those of the value of the call before.
func (m *Values) Match(value []byte, shared int) bool { return m.dfa.match(value, shared) }

// MatchString reports whether the expression matches a single value.
func (m *Values) MatchString(value string) bool {
	m.dfa.work.Done(len(m.Places))
	for _, p := range m.Places {
		if p.Exact {
			if value == p.Prefix {
				return true
			}
		} else if strings.HasPrefix(value, p.Prefix) && (!p.Check || m.dfa.match([]byte(value), 0)) {
			return true
		}
	}
	return false
}

// beginning is what is known of the beginning of matching texts.
type beginning struct {
	text   string
	begun  bool // after ^: text is at the beginning of the value
	ended  bool // before $
	closed bool // what follows is not known
}

// places turns an expression into the values that may match it.
func places(tree *syntax.Regexp) []Place {
	x := expansion{left: maxExpansion}
	list := x.expand(tree, []beginning{{}})
	if x.open {
		return []Place{{Check: true}}
	}
	out := make([]Place, 0, len(list))
	for _, b := range list {
		switch {
		case !b.begun: // an empty expression
			return []Place{{Check: true}}
		case b.ended:
			// Only conditions can follow $, and they may fail.
			if b.closed {
				out = append(out, Place{Prefix: b.text, Check: true})
			} else {
				out = append(out, Place{Prefix: b.text, Exact: true})
			}
		default:
			out = append(out, Place{Prefix: b.text, Check: b.closed})
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(a.Prefix, b.Prefix) })
	return slices.Compact(out)
}

// expansion makes the beginnings of the values that an expression matches. It
// ends early, with open set, once a match may begin elsewhere than at the
// value's beginning: then every value must be looked at.
type expansion struct {
	left int // bytes and nodes that may still be looked at
	open bool
}

// expand appends to each beginning what re may match there. A nil result means
// that nothing matches.
func (x *expansion) expand(re *syntax.Regexp, in []beginning) []beginning {
	x.left -= 1 + len(in)
	if x.left < 0 {
		return x.closeAll(in)
	}
	if len(in) == 0 || x.open {
		return nil
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return nil
	case syntax.OpEmptyMatch:
		return in
	case syntax.OpCapture:
		return x.expand(re.Sub[0], in)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if allClosed(in) {
				break
			}
			in = x.expand(sub, in)
		}
		return in
	case syntax.OpAlternate:
		return x.either(in, len(re.Sub), func(i int, in []beginning) []beginning { return x.expand(re.Sub[i], in) })
	case syntax.OpQuest:
		return x.either(in, 2, func(i int, in []beginning) []beginning {
			if i == 0 {
				return in
			}
			return x.expand(re.Sub[0], in)
		})
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
		return x.appendText(in, string(re.Rune))
	case syntax.OpCharClass:
		var runes []rune
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if runes = append(runes, r); len(runes) > 16 || r == utf8.RuneError {
					return x.closeAll(in)
				}
			}
		}
		return x.either(in, len(runes), func(i int, in []beginning) []beginning { return x.appendText(in, string(runes[i])) })
	}
	return x.closeAll(in)
}

// either unites n alternatives; if they are too many it closes in.
func (x *expansion) either(in []beginning, n int, alternative func(i int, in []beginning) []beginning) []beginning {
	var out []beginning
	for i := range n {
		out = append(out, alternative(i, slices.Clone(in))...)
		if len(out) > maxPlaces {
			return x.closeAll(in)
		}
	}
	return out
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

func allClosed(in []beginning) bool {
	return !slices.ContainsFunc(in, func(b beginning) bool { return !b.closed })
}

func (x *expansion) appendText(in []beginning, text string) []beginning {
	if text == "" {
		return in
	}
	for _, b := range in {
		if !b.closed {
			x.left -= len(b.text) + len(text)
			x.open = x.open || !b.begun
		}
	}
	if x.left < 0 {
		return x.closeAll(in)
	}
	return apply(in, func(b *beginning) bool {
		// No value is longer than the longest key.
		if b.ended || len(b.text)+len(text) > model.MaxKeyLength {
			return false
		}
		b.text += text
		return true
	})
}

func (x *expansion) closeAll(in []beginning) []beginning {
	return apply(in, func(b *beginning) bool {
		b.closed = true
		x.open = x.open || !b.begun
		return true
	})
}
