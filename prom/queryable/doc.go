// Package queryable shows one retention policy to Prometheus' engine. Source is a
// storage.Queryable over package scan.
//
// Select works in two steps. First it finds the series: matchers of __name__ choose
// measurements and fields (see metrics), the other matchers become a predicate over
// tags (see selector), and each series that storage selects gets its labels. Series
// with equal labels become one (see Series). Then, when a caller iterates over a
// series, it reads the samples of this series and of those that follow it (see batch).
//
// Look-ups of labels take one measurement after another, and hold only what they
// return (see looker).
//
// Times are milliseconds: nanoseconds round down, and of several samples in one
// millisecond the last stays.
//
// All memory that grows with the data is charged before it is taken. A querier and
// what it returns belong to one goroutine.
package queryable
