package operator

import (
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// Tree is an expression whose selectors are those of plans.
type Tree struct {
	root    *node
	plans   []*window.Plan
	instant bool
}

// node is an expression of a tree.
type node struct {
	operands []*node
	compute  func(r *run, in []value) (value, error) // in is the values of the operands
}

// value is the value of a node at all steps.
type value struct {
	list []series  // no two have the same labels, and each has a value at some step
	each []float64 // of a scalar, which has no series
}

// New returns the tree of an expression as it was parsed, or nil if it has none.
func New(expr parser.Expr, q *window.Query) *Tree {
	g, ok := q.Grid()
	if !ok || g.Steps() == 0 || expr.Type() != parser.ValueTypeVector {
		return nil
	}
	t := &Tree{instant: q.Step == 0}
	if t.root = t.node(expr, q, g); t.root == nil || len(t.plans) == 0 || len(t.root.operands) == 0 {
		return nil
	}
	return t
}

// node returns the node of an expression, or nil.
func (t *Tree) node(expr parser.Expr, q *window.Query, g window.Grid) *node {
	if plan := window.NewPart(expr, q); plan != nil {
		place := len(t.plans)
		t.plans = append(t.plans, plan)
		return &node{compute: func(r *run, _ []value) (value, error) {
			return r.collect(plan, r.in[place])
		}}
	}
	if plan, of, at := window.NewOver(window.Inner(expr), q); plan != nil {
		g, _ := at.Grid()
		return t.over([]parser.Expr{of}, at, g, func(r *run, in []value) (value, error) {
			return r.over(plan, in[0].list, g)
		})
	}
	switch e := window.Inner(expr).(type) {
	case *parser.NumberLiteral:
		return scalar(g, func(int) float64 { return e.Val })
	case *parser.UnaryExpr:
		if e.Op == parser.ADD {
			return t.node(e.Expr, q, g)
		}
		return t.over([]parser.Expr{e.Expr}, q, g, negate)
	case *parser.BinaryExpr:
		if compute := binary(e); compute != nil {
			return t.over([]parser.Expr{e.LHS, e.RHS}, q, g, compute)
		}
	case *parser.Call:
		return t.call(e, q, g)
	}
	return nil
}

// over returns a node over operands, or nil if one has none.
func (t *Tree) over(of []parser.Expr, q *window.Query, g window.Grid, compute func(*run, []value) (value, error)) *node {
	n := &node{compute: compute}
	for _, expr := range of {
		operand := t.node(expr, q, g)
		if operand == nil {
			return nil
		}
		n.operands = append(n.operands, operand)
	}
	return n
}

// scalar returns the node of a number at each step.
func scalar(g window.Grid, number func(step int) float64) *node {
	return &node{compute: func(r *run, _ []value) (value, error) {
		steps, err := r.steps(g.Steps())
		for i := range steps {
			steps[i] = number(i)
		}
		return value{each: steps}, err
	}}
}

// Plans returns the plans of the tree, from left to right.
func (t *Tree) Plans() []*window.Plan { return t.plans }
