// Package expr evaluates the expressions of InfluxQL over columns. An Evaluator
// computes an expression for a batch of rows at once. Conditions are split into
// a time range (SplitTime), a predicate on tags for the index (SplitTags), and
// the rest, which is tested row by row.
//
// A Scalar is a single value, an Operand a column or a constant that takes part
// in an expression. The package also holds the mathematical functions and the sets
// of IN.
package expr
