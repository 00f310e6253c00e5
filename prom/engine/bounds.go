package engine

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"tsdbd/query/syntax"
)

// maxWords bounds the words of a query. The parser and the engine recurse over
// expressions, so the words bound their stacks. A sum of 5,000 metrics takes a second
// or two.
const maxWords = 10_000

// regexMemory is the memory of compiling a regular expression, as a multiple of the
// size of its program.
const regexMemory = 3

var errTooManyWords = fmt.Errorf("the query has more than %d words", maxWords)

// check refuses a text that would take too much to parse. It adds the regular
// expressions, which the parser compiles, to budget.
func check(text string, budget *syntax.RegexBudget) error {
	if len(text) <= maxWords && !strings.Contains(text, "~") {
		return nil // too short for so many words, and without a regular expression
	}
	var item parser.Item
	pattern := false
	words := 0
	for lexer := parser.Lex(text); ; words++ {
		if words == maxWords {
			return &Error{BadData, errTooManyWords}
		}
		lexer.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return nil
		case parser.EQL_REGEX, parser.NEQ_REGEX:
			pattern = true
			continue
		case parser.STRING:
			if !pattern {
				break
			}
			expr, err := strutil.Unquote(item.Val)
			if err != nil {
				break // the parser says so
			}
			if err := budget.Add(expr); err != nil {
				return &Error{BadData, err}
			}
		}
		pattern = false
	}
}

// bounds are what the evaluation of an expression can take in addition to the samples
// that are read.
type bounds struct {
	fixed  int64 // bytes that do not depend on the number of series
	series int64 // bytes for each series that is read
	// matrix says that the value has the samples that are read.
	matrix bool
	// values says that one series may give others with each step.
	values bool
	// labels is how much memory the labels take that the expression makes of those of a
	// series.
	labels growth
	// reads is how many points of subqueries a function reads for one series: those in
	// the windows of all steps.
	reads float64
}

// Prometheus' engine reads the windows of a series without a look at the context. So the
// points in the windows of a series bound how long a killed query continues.
const (
	// sliceReads is the bound of a query whose steps can be evaluated in slices: some
	// tenths of a second.
	sliceReads = 1e8
	// maxReads is the bound of a single step: a second or two.
	maxReads = 2.5e8
)

// readsOf returns how many points a function reads in the time that it takes for one.
func readsOf(function string) float64 {
	switch function {
	case "quantile_over_time", "mad_over_time": // they sort each window
		return 50
	}
	return 1
}

// longWindows is the error of windows of a series that have more points than a limit.
type longWindows struct{ reads, limit float64 }

func (e *longWindows) Error() string {
	return fmt.Sprintf("the windows of a series have %.2g points, more than %.0g: use a larger step or a shorter range", e.reads, e.limit)
}

const (
	// seriesBytes is what Prometheus' engine takes for a series in addition to its
	// points: headers, entries of maps, and new labels, which share their texts.
	seriesBytes = 512
	// nodeBytes is the same for a node of the tree.
	nodeBytes = 512
)

// boundsOf returns the bounds of an expression. An operator holds the points of its
// operands and of its result. The engine evaluates an operand for all steps at once.
func boundsOf(expr parser.Expr, req *Request) bounds {
	w := &walk{}
	span, step := float64(req.End.Sub(req.Start)), float64(req.Step)
	_ = parser.Walk(level{walk: w, span: span, step: step, steps: stepsOf(span, step)}, expr, nil)
	copies := 1.0
	if w.operators {
		copies = 2
	}
	return bounds{
		fixed:  toBytes(w.fixed),
		series: toBytes(copies*w.steps*pointBytes + seriesBytes + w.values + w.spread),
		values: w.values > 0,
		matrix: expr.Type() == parser.ValueTypeMatrix,
		labels: w.labels,
		reads:  w.reads,
	}
}

func stepsOf(span, step float64) float64 {
	if step <= 0 {
		return 1
	}
	return math.Floor(span/step) + 2
}

// toBytes returns a number of bytes that fits.
func toBytes(n float64) int64 { return int64(min(n, math.MaxInt64/4)) }

// walk is what a walk over an expression has found.
type walk struct {
	steps     float64 // the most steps of a series
	fixed     float64 // bytes
	values    float64 // bytes of the series that one series may give with each step
	spread    float64 // bytes of the series that one series may give at all steps
	operators bool    // points are operands of something
	labels    growth
	reads     float64 // the most points in the windows of a subquery
}

// level is a part of the expression that is evaluated at the same steps.
type level struct {
	*walk
	growth                    // of labels, in the expressions around the part
	call              string  // the function that the part is an argument of
	span, step, steps float64 // nanoseconds; step 0: one step
}

// Visit implements parser.Visitor.
func (l level) Visit(node parser.Node, _ []parser.Node) (parser.Visitor, error) {
	if node == nil {
		return nil, nil
	}
	l.walk.fixed += nodeBytes
	switch n := node.(type) {
	case *parser.VectorSelector:
		l.walk.steps = max(l.walk.steps, l.steps)
		l.walk.labels = growth{max(l.walk.labels.factor, l.factor), max(l.walk.labels.more, l.more)}
	case *parser.NumberLiteral:
		l.walk.fixed += l.steps*pointBytes + l.more
	case *parser.Call:
		l.call = n.Func.Name
		l.walk.fixed += l.steps * pointBytes // such as time(), absent() and scalar()
		l.growth = l.around(labelsOf(n), 1)
		if len(n.Args) == 0 {
			l.walk.fixed += l.more
		}
		if n.Func.Name == "histogram_quantiles" { // a series for each quantile
			l.walk.spread += float64(len(n.Args)) * (l.steps*pointBytes + seriesBytes)
		}
		if len(n.Args) == 0 || n.Args[len(n.Args)-1].Type() != parser.ValueTypeMatrix {
			l.walk.operators = true
		}
	case *parser.AggregateExpr:
		if len(n.Grouping) > 0 || n.Without || n.Param != nil { // else the result is one series
			l.walk.operators = true
		}
		if n.Op == parser.COUNT_VALUES { // a series for each value, with room for all steps
			l.walk.values += l.steps * (l.steps*pointBytes + seriesBytes)
			name := literal(n.Param)
			l.growth = l.around(growth{l.steps, l.steps * float64(len(name)+valueBytes)}, l.steps)
		}
	case *parser.BinaryExpr, *parser.UnaryExpr:
		l.walk.operators = true
	case *parser.SubqueryExpr:
		l.walk.operators = true
		l.step = float64(n.Step)
		if n.Step == 0 {
			l.step = float64(subqueryStep)
		}
		l.walk.reads = max(l.walk.reads, readsOf(l.call)*l.steps*float64(n.Range)/max(l.step, float64(time.Millisecond)))
		l.span += float64(n.Range)
		l.steps = stepsOf(l.span, max(l.step, float64(time.Millisecond)))
		l.walk.fixed += l.steps * pointBytes // what the engine counts for each step
	}
	return l, nil
}
