package queryable

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/model"
	"tsdbd/prom"
)

// maxMatchers bounds the matchers of a selector: its predicate is as deep.
const maxMatchers = 5000

// selector is what matchers ask for.
type selector struct {
	names []*labels.Matcher   // of __name__
	where *model.TagExpr      // the others; nil: every series
	sure  map[uint64][]string // by shard, measurements of which where chooses series
	// columns are those of Source.
	columns []string
}

// selector divides matchers into those of the name and a predicate over tags.
func (q *querier) selector(matchers []*labels.Matcher) (selector, error) {
	s := selector{sure: map[uint64][]string{}, columns: q.columns}
	if len(matchers) > maxMatchers {
		return s, errors.New("too many matchers")
	}
	for _, m := range matchers {
		if m.Name == prom.NameLabel {
			if text := prom.Text(m.Value); text != m.Value && (m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual) {
				m = labels.MustNewMatcher(m.Type, m.Name, text)
			}
			s.names = append(s.names, m)
			continue
		}
		e, err := q.predicate(m)
		if err != nil {
			return s, err
		}
		switch {
		case s.where == nil:
			s.where = e
		case e != nil:
			s.where = &model.TagExpr{Op: model.TagAnd, Left: s.where, Right: e}
		}
	}
	return s, nil
}

// predicate returns a matcher as storage has it; nil if it selects every series. A
// label that a series lacks is empty for both.
func (q *querier) predicate(m *labels.Matcher) (*model.TagExpr, error) {
	e := &model.TagExpr{Key: TagKey(m.Name), Value: m.Value}
	negative := m.Type == labels.MatchNotRegexp || m.Type == labels.MatchNotEqual
	op := func(positive, otherwise model.TagOp) model.TagOp {
		if negative {
			return otherwise
		}
		return positive
	}
	set := m.SetMatches()
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		if set = spellings([]string{m.Value}); len(set) == 1 {
			e.Op = op(model.TagEqual, model.TagNotEqual)
			return e, nil
		}
	}
	e.Value = ""
	switch {
	case len(set) > 0:
		e.Op, e.Values = op(model.TagIn, model.TagNotIn), slices.Compact(slices.Sorted(slices.Values(spellings(set))))
		return e, nil
	case m.Value == ".*" && !negative:
		return nil, nil
	case m.Value == ".*":
		e.Op = model.TagNone
		return e, nil
	case m.Value == ".+":
		e.Op = op(model.TagNotEqual, model.TagEqual)
		return e, nil
	}
	pattern := "^(?s:" + m.Value + ")$"
	if err := q.regexes.Add(pattern); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	e.Op, e.Regex = op(model.TagMatch, model.TagNotMatch), re
	return e, nil
}

// name reports whether all matchers of the name accept one.
func (s *selector) name(name string) bool {
	for _, m := range s.names {
		if !m.Matches(name) {
			return false
		}
	}
	return true
}

// spellings returns texts together with the names in storage, or values there, that
// prom.Text turns into one of them.
func spellings(texts []string) []string {
	for _, text := range texts {
		if raw, ok := prom.Raw(text); ok {
			texts = append(slices.Clip(texts), raw)
		}
	}
	return texts
}

// TagKey returns the key of the tag of a label.
func TagKey(label string) string {
	if raw, ok := prom.Raw(label); ok {
		return raw
	}
	return label
}

// exactNames returns the names that a selector may find, and false if it does not
// list them.
func (s *selector) exactNames() ([]string, bool) {
	for _, m := range s.names {
		if m.Type == labels.MatchEqual {
			return []string{m.Value}, true
		}
	}
	for _, m := range s.names {
		if set := m.SetMatches(); m.Type == labels.MatchRegexp && len(set) > 0 {
			return set, true
		}
	}
	return nil, false
}

// prefix returns what all names that a selector finds begin with, as storage has them.
func (s *selector) prefix() string {
	prefix := ""
	for _, m := range s.names {
		if p, _, _ := strings.Cut(m.Prefix(), `\`); m.Type == labels.MatchRegexp && len(p) > len(prefix) {
			prefix = p
		}
	}
	return prefix
}
