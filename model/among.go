package model

import "slices"

// Among returns sorted names among which are all of those that e holds for, and false if they
// are not known. leaf returns those of what is neither TagAnd nor TagOr, in a list of its own.
func (e *TagExpr) Among(leaf func(*TagExpr) (names []string, known bool, err error)) (names []string, known bool, err error) {
	if e == nil || e.Op != TagAnd && e.Op != TagOr {
		return leaf(e)
	}
	left, known, err := e.Left.Among(leaf)
	if err != nil || !known && e.Op == TagOr {
		return nil, false, err
	}
	right, also, err := e.Right.Among(leaf)
	switch {
	case err != nil || !also && e.Op == TagOr:
		return nil, false, err
	case e.Op == TagOr:
		all := append(left, right...)
		slices.Sort(all)
		return slices.Compact(all), true, nil
	case !known:
		return right, also, nil
	case !also:
		return left, true, nil
	}
	return InBoth(left, right), true, nil
}

// InBoth returns the names that are in both of two sorted lists.
func InBoth(names, others []string) (both []string) {
	for _, name := range names {
		at, ok := slices.BinarySearch(others, name)
		if ok {
			both = append(both, name)
		}
		others = others[at:]
	}
	return both
}
