// Package operator computes expressions of operators, functions, and aggregations between
// what prom/window has plans for, and numbers: avg by (job) (1 - a / b), or
// histogram_quantile(0.9, sum by (le) (rate(a[5m]))) > 0.1.
//
// A Tree is such an expression. Its Run computes the series of each plan once, with all
// steps. Each node makes its series of those of its operands: an operator pairs the series
// of both sides once, where Prometheus' engine pairs them at each step. An aggregation, and
// a function over a subquery, is a plan over the series of a node.
//
// A result is equal to the last bit to that of Prometheus' engine, and so is the order of
// the series. Where that depends on the order of a map in the engine, it is any of the
// results that the engine may give. If a step may have two series with the same labels, or
// with the same labels for their operator, the engine decides whether that is an error: Run
// gives up before it yields anything.
package operator
