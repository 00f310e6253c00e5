// Package function holds the functions of InfluxQL. Functions has one row for each:
// its arguments, the types that it takes and returns, and how it runs.
//
//   - Partial states answer it (Partial), see package partial.
//   - It needs all rows of a group (Rows).
//   - It transforms a series of values, rows or windows of an aggregate (Series).
//
// To add a function, add a row and its code. No other file names a function.
// Filler fills windows, rows and columns as fill() asks.
//
// The code of a function sees its call by a Context. It belongs to the goroutine of
// the statement.
package function
