package match

import (
	"cmp"
	"regexp"

	"tsdbd/model"
)

// Matcher decides predicates for one series at a time, from its tags, with the
// answers of View.Select. It compiles each regular expression once. One
// goroutine may use it.
type Matcher struct {
	regexes map[*regexp.Regexp]*Values
}

// NewMatcher returns a Matcher.
func NewMatcher() *Matcher { return &Matcher{regexes: map[*regexp.Regexp]*Values{}} }

// Match reports whether a series of these tags satisfies the predicate; nil
// matches every series. It counts its steps in work and returns its error.
// Limited work compiles no expression: it ends with ErrBudget.
func (m *Matcher) Match(expr *model.TagExpr, tags model.Tags, work *Work) (bool, error) {
	ok, err := m.eval(expr, tags, work)
	if err = cmp.Or(err, work.err); err != nil {
		return false, err
	}
	return ok, nil
}

func (m *Matcher) eval(e *model.TagExpr, tags model.Tags, work *Work) (bool, error) {
	if work.Done(1) || e == nil {
		return true, nil
	}
	switch e.Op {
	case model.TagAnd, model.TagOr:
		ok, err := m.eval(e.Left, tags, work)
		if err != nil || ok != (e.Op == model.TagAnd) {
			return ok, err
		}
		return m.eval(e.Right, tags, work)
	case model.TagMatch, model.TagNotMatch:
		v := m.regexes[e.Regex]
		if v == nil {
			if work.limited {
				return false, ErrBudget
			}
			var err error
			if v, err = NewValues(e.Regex, work); err != nil {
				return false, err
			}
			m.regexes[e.Regex] = v
		}
		v.use(work)
		return v.MatchString(tags.Get(e.Key)) == (e.Op == model.TagMatch), nil
	}
	return e.Match(tags), nil
}
