package model

import (
	"errors"
	"slices"
	"testing"
)

// TestAmong: what is not known is all names to AND, and leaves OR unknown.
func TestAmong(t *testing.T) {
	broken := errors.New("broken")
	leaves := map[string][]string{"ab": {"a", "b"}, "bc": {"b", "c"}, "d": {"d"}, "none": nil}
	leaf := func(e *TagExpr) ([]string, bool, error) {
		if e == nil {
			return nil, false, nil
		}
		if e.Key == "broken" {
			return []string{"a"}, true, broken
		}
		names, known := leaves[e.Key]
		return slices.Clone(names), known, nil
	}
	of := func(op TagOp, left, right string) *TagExpr {
		return &TagExpr{Op: op, Left: &TagExpr{Op: TagEqual, Key: left}, Right: &TagExpr{Op: TagEqual, Key: right}}
	}
	for _, c := range []struct {
		e     *TagExpr
		want  string
		known bool
		err   error
	}{
		{nil, "", false, nil},
		{&TagExpr{Op: TagEqual, Key: "ab"}, "ab", true, nil},
		{of(TagAnd, "ab", "bc"), "b", true, nil},
		{of(TagAnd, "ab", "d"), "", true, nil},
		{of(TagAnd, "ab", "none"), "", true, nil},
		{of(TagAnd, "ab", "?"), "ab", true, nil},
		{of(TagAnd, "?", "bc"), "bc", true, nil},
		{of(TagAnd, "?", "?"), "", false, nil},
		{of(TagOr, "bc", "ab"), "abc", true, nil},
		{of(TagOr, "none", "d"), "d", true, nil},
		{of(TagOr, "ab", "?"), "", false, nil},
		{of(TagOr, "?", "ab"), "", false, nil},
		{of(TagOr, "ab", "broken"), "", false, broken},
		{of(TagAnd, "broken", "ab"), "", false, broken},
		{&TagExpr{Op: TagAnd, Left: of(TagOr, "ab", "d"), Right: of(TagOr, "bc", "d")}, "bd", true, nil},
	} {
		names, known, err := c.e.Among(leaf)
		got := ""
		for _, name := range names {
			got += name
		}
		if got != c.want || known != c.known || !errors.Is(err, c.err) {
			t.Errorf("%+v: %q %t %v, want %q %t %v", c.e, got, known, err, c.want, c.known, c.err)
		}
	}
}
