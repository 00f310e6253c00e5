// Package query executes InfluxQL statements.
//
// Create an Executor with New. Execute runs the statements of a parsed query in
// order and passes each Result, a piece of the answer as typed columns, to a
// callback as soon as it is ready.
//
// Each kind of statement has a row in the table rules (statement.go). The row says
// what runs the statement, which database and sources it is about, which rights it
// takes, and whether it changes anything. Execute, Normalize, and Needs read the
// table. A statement runs in one of four ways:
//
//   - SELECT and EXPLAIN run in package engine.
//   - Statements that show something return tables from package show.
//   - Statements that change the catalog become a meta.Command (ddl.go).
//   - DELETE, DROP SERIES, and DROP MEASUREMENT become a scan.DeleteRequest.
//
// ParseContinuous reads a stored continuous query. EXECUTE CONTINUOUS QUERY computes
// its windows over a range.
//
// # Guarantees
//
//   - Admission applies to every query: limits, memory, turns on the cores, KILL, and
//     the guard against panics (package admission).
//   - Normalize runs before a statement, so that packages show and engine see a
//     database and a retention policy in every source.
//   - Needs covers every source and target, however deep in subqueries. A kind of
//     statement without a row takes an administrator.
//
// # Limits of the package
//
// The package does not parse text (package syntax), encode results, check rights, or
// access files. Package scan defines the interface to storage.
//
// An Executor is safe for concurrent use. Each statement runs in the goroutine
// that called Execute, and so do its callbacks.
package query
