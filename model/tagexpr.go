package model

import (
	"regexp"
	"slices"
)

// TagOp is the kind of a TagExpr node.
type TagOp uint8

// The kinds of tag predicate. A tag that a series lacks has the value "", so
// TagEqual with "" selects series without the tag and TagNotEqual with "x"
// also selects them (InfluxDB's rule); a regular expression is unanchored.
const (
	TagEqual    TagOp = iota + 1 // value of Key equals Value
	TagNotEqual                  // value of Key differs from Value
	TagMatch                     // value of Key matches Regex
	TagNotMatch                  // value of Key does not match Regex
	TagIn                        // value of Key is one of Values
	TagNotIn                     // value of Key is none of Values
	TagAnd                       // Left and Right
	TagOr                        // Left or Right
	TagAll                       // every series
	TagNone                      // no series
)

// TagExpr is a predicate over a series' tags. A nil *TagExpr selects every
// series. It is immutable once built.
type TagExpr struct {
	Op          TagOp
	Key, Value  string
	Values      []string // sorted, each once
	Regex       *regexp.Regexp
	Left, Right *TagExpr
}

// Match evaluates e over one tag set.
func (e *TagExpr) Match(tags Tags) bool {
	if e == nil {
		return true
	}
	switch e.Op {
	case TagEqual:
		return tags.Get(e.Key) == e.Value
	case TagNotEqual:
		return tags.Get(e.Key) != e.Value
	case TagMatch:
		return e.Regex.MatchString(tags.Get(e.Key))
	case TagNotMatch:
		return !e.Regex.MatchString(tags.Get(e.Key))
	case TagIn, TagNotIn:
		_, found := slices.BinarySearch(e.Values, tags.Get(e.Key))
		return found == (e.Op == TagIn)
	case TagAnd:
		return e.Left.Match(tags) && e.Right.Match(tags)
	case TagOr:
		return e.Left.Match(tags) || e.Right.Match(tags)
	case TagAll:
		return true
	}
	return false
}
