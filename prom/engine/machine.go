package engine

import (
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// pointBytes is a point of a series in Prometheus' engine.
const pointBytes = 16

// machine is an engine of Prometheus that runs one query at a time. It is its own
// parser, which returns the expression that the machine was given.
type machine struct {
	parser.Parser
	engine  *promql.Engine
	expr    parser.Expr
	samples int
}

// ParseExpr returns the expression of the query.
func (m *machine) ParseExpr(string) (parser.Expr, error) { return m.expr, nil }

// machine returns a machine for an expression. The caller gives it back to machines.
func (e *Engine) machine(expr parser.Expr) *machine {
	samples := math.MaxInt
	if limit := e.opt.Queries.Limits().MemoryBytes; limit > 0 {
		samples = int(max(1, min(limit/pointBytes, math.MaxInt)))
	}
	m, _ := e.machines.Get().(*machine)
	if m == nil || m.samples != samples {
		m = &machine{Parser: standard, samples: samples}
		m.engine = promql.NewEngine(promql.EngineOpts{
			Logger: e.opt.Logger, Parser: m, MaxSamples: samples,
			Timeout:                  math.MaxInt64, // the context has the time limit
			EnableAtModifier:         true,
			EnableNegativeOffset:     true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return int64(subqueryStep / time.Millisecond) },
		})
	}
	m.expr = expr
	return m
}
