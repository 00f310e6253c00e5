// Package operator computes binary operators between what prom/window has plans for, and
// numbers: 1 - a / b, or sum(rate(a[5m])) / sum(rate(b[5m])) > 0.1.
//
// A Tree is such an expression. Its Run computes the series of each plan once, with all
// steps, pairs the series of both sides of an operator, and computes the steps of each
// pair. Prometheus' engine pairs them again at each step.
//
// A result is equal to the last bit to that of Prometheus' engine, and so is the order of
// the series. Where series have a partner at some steps only, or more than one, the engine
// decides: New returns nil for grouped and for set operators, and Run gives up, before it
// yields anything, if series of one side have the same labels for their operator.
package operator
