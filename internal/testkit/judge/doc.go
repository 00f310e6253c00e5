// Package judge tests downsamples from outside. A Judge makes random steps against a server
// over HTTP: rows, deletes, dropped shards, moves, changes of downsamples, expiry, restarts, kills,
// power cuts. It keeps a shadow of what the documents promise, computed from the rows in plain
// loops, and compares the rows of all targets and the answers to random statements in InfluxQL and
// PromQL with it.
//
// The package imports nothing of the product. shadow.go has the rules of docs/downsamples.md,
// asks.go and prom.go those of the answers: a function is a line of a table. Rows lie in two days
// of 2024 and expire because their policy gets a shorter life: no clock is set, and a seed makes the
// same steps again. Only the moments of kills differ.
package judge
