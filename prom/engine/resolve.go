package engine

import (
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// resolve replaces what depends on the times of the whole query by its value: durations
// such as [step()*4], @ start() and @ end(), and the functions start(), end(), range() and
// step(). What follows may then evaluate a part of the steps, and reads durations only.
func resolve(expr parser.Expr, req *Request) (parser.Expr, error) {
	r := &resolver{req: req}
	r.resolve(&expr)
	return expr, r.err
}

type resolver struct {
	req *Request
	err error
}

// compute lets Prometheus compute an expression, which has no selector that is read.
func (r *resolver) compute(expr parser.Expr) parser.Expr {
	out, err := promql.PreprocessExpr(expr, r.req.Start, r.req.End, r.req.Step)
	if err != nil && r.err == nil {
		r.err = &Error{BadData, err}
	}
	return out
}

func (r *resolver) resolve(expr *parser.Expr) {
	switch e := (*expr).(type) {
	case *parser.Call:
		switch e.Func.Name {
		case "start", "end", "range", "step":
			*expr = r.compute(e)
		}
	case *parser.MatrixSelector:
		if e.RangeExpr != nil {
			at := &parser.MatrixSelector{VectorSelector: new(parser.VectorSelector), RangeExpr: e.RangeExpr}
			r.compute(at)
			e.Range, e.RangeExpr = at.Range, nil
		}
	case *parser.VectorSelector:
		if e.OriginalOffsetExpr != nil {
			at := &parser.VectorSelector{OriginalOffsetExpr: e.OriginalOffsetExpr}
			r.compute(at)
			e.OriginalOffset, e.OriginalOffsetExpr = at.OriginalOffset, nil
		}
		r.at(&e.StartOrEnd, &e.Timestamp)
	case *parser.SubqueryExpr:
		if e.RangeExpr != nil || e.StepExpr != nil || e.OriginalOffsetExpr != nil {
			at := &parser.SubqueryExpr{Expr: new(parser.NumberLiteral), RangeExpr: e.RangeExpr, Range: e.Range, StepExpr: e.StepExpr, Step: e.Step, OriginalOffsetExpr: e.OriginalOffsetExpr, OriginalOffset: e.OriginalOffset}
			r.compute(at)
			e.Range, e.Step, e.OriginalOffset = at.Range, at.Step, at.OriginalOffset
			e.RangeExpr, e.StepExpr, e.OriginalOffsetExpr = nil, nil, nil
		}
		r.at(&e.StartOrEnd, &e.Timestamp)
	}
	window.Operands(*expr, r.resolve)
}

// at replaces a modifier @ start() or @ end() by its time.
func (r *resolver) at(bound *parser.ItemType, timestamp **int64) {
	var t int64
	switch *bound {
	case parser.START:
		t = r.req.Start.UnixMilli()
	case parser.END:
		t = r.req.End.UnixMilli()
	default:
		return
	}
	*bound, *timestamp = 0, &t
}
