package operator

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// Tree is an operator with its two sides, a plan, or a number.
type Tree struct {
	op          func(a, b float64) (value float64, keep bool)
	left, right *Tree
	compares    bool // the operator is a comparison
	bool        bool // ... that gives 0 or 1
	on          bool // series are paired by names, not by all labels but names
	names       []string
	without     []string // names with that of the metric, sorted

	plan   *window.Plan
	number float64
}

// New returns the tree of an expression as it was parsed, or nil if it has none.
func New(expr parser.Expr, q *window.Query) *Tree {
	t := node(expr, q)
	if t == nil || t.op == nil || len(t.Plans()) == 0 {
		return nil
	}
	return t
}

func node(expr parser.Expr, q *window.Query) *Tree {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return node(e.Expr, q)
	case *parser.NumberLiteral:
		return &Tree{number: e.Val}
	case *parser.BinaryExpr:
		op := operators[e.Op]
		t := &Tree{op: op, compares: e.Op.IsComparisonOperator(), bool: e.ReturnBool}
		if op == nil || !t.pairs(e.VectorMatching) {
			return nil
		}
		if t.left = node(e.LHS, q); t.left == nil {
			return nil
		}
		if t.right = node(e.RHS, q); t.right == nil || !t.left.vector() && !t.right.vector() {
			return nil
		}
		return t
	}
	if plan := window.NewPlan(expr, q); plan != nil {
		return &Tree{plan: plan}
	}
	return nil
}

// pairs notes how the series of both sides are paired; false: one of them with many.
func (t *Tree) pairs(m *parser.VectorMatching) bool {
	if m == nil {
		return true
	}
	t.on, t.names = m.On, slices.Sorted(slices.Values(m.MatchingLabels))
	t.without = slices.Sorted(slices.Values(append([]string{model.MetricNameLabel}, t.names...)))
	return m.Card == parser.CardOneToOne && len(m.Include) == 0 && m.FillValues.LHS == nil && m.FillValues.RHS == nil &&
		!slices.Contains(m.MatchingLabels, model.MetricNameLabel)
}

// vector reports whether the tree gives series.
func (t *Tree) vector() bool { return t.op != nil || t.plan != nil }

// Plans returns the plans of the tree, from left to right.
func (t *Tree) Plans() []*window.Plan {
	switch {
	case t.plan != nil:
		return []*window.Plan{t.plan}
	case t.op != nil:
		return append(t.left.Plans(), t.right.Plans()...)
	}
	return nil
}
