// Package judge tests downsamples from outside. A Judge makes random steps against a server
// over HTTP: rows, deletes, moves, changes of downsamples, expiry, restarts, kills. It keeps
// a shadow of what the documents promise, computed from the rows in plain loops, and compares
// the rows of all targets and the answers to random statements with it.
//
// The package imports nothing of the product. shadow.go has the rules of docs/downsamples.md,
// asks.go those of the answers: a function is a line of its table. Rows lie in the day before
// now, so that a policy with a shorter life lets them expire: no clock is set.
package judge
