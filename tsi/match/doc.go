// Package match decides which series and tag values satisfy a predicate.
//
// Values turns a regular expression into places of a sorted dictionary and runs
// it there. A Matcher decides a predicate for one series at a time. Work counts
// the steps of both, and of the loops around them, so that a client's context or a
// limit of steps ends them.
package match
