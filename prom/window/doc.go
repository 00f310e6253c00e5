// Package window computes what PromQL asks for most, series by series and without
// Prometheus' engine: selectors, functions over range selectors, and aggregations of
// one of them.
//
// NewPlan looks whether an expression is of this kind. Plan.Run takes the samples of
// one series after another from a Reader, computes its value at all steps with a
// kernel, and yields it or adds it to the state of its group: a fold, or a top. So
// it holds the samples of few series at a time, and of an aggregation only the groups.
//
// # Guarantees
//
//   - A result is equal to the last bit to that of Prometheus' engine over the same
//     series in the same order, and so are the order of the series and the notes.
//     Kernels add in the order in which the engine adds. They take a shortcut only
//     where it gives the same bits.
//   - A plan does not begin what it cannot finish. If NewPlan returns nil or Fits returns
//     false, the engine evaluates the expression.
//
// # Parts
//
// Parts finds the parts of a larger expression that have a plan, and replaces
// each by a selector. For such a selector the engine gets a Set: series with a sample at
// each step. If a step has no value, the sample is the marker, so that the engine
// does not look for an older one.
//
// # Subqueries
//
// A function over a subquery has a plan if the expression in the subquery has one. The
// inner plan is a stage: a Reader whose samples are at the steps of the subquery. All
// windows are read by kernels then, which look now and then whether the query has ended.
//
// # Plans over other series
//
// NewOver returns the plan of an aggregation, or of a function over a subquery, whose series
// somebody else computes: prom/operator.
//
// # Steps
//
// The value of a series at the steps is a slice with an element for each step. Steps
// without a value hold the marker that ends a series (Absent), which no result is.
//
// Native histograms and start timestamps are for the engine.
package window
