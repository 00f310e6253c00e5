// Package continuous runs the continuous queries that the catalog holds: SELECT
// INTO over the windows that have ended, each time one ends.
//
// Start runs one loop until Close. Every Interval it goes through the catalog's
// queries; parse gives each a plan (query.ContinuousQuery, EVERY, FOR), plan.due
// says whether a run is due and over which range, and the statement with that
// range added to its condition goes to Execute, one query after the other.
//
// # When and over what
//
// A query without RESAMPLE runs once per interval of its GROUP BY time, after
// the window has ended, over that window. EVERY says how often instead, FOR how
// far back a run looks; a run is one statement over all its windows. Times are
// aligned to EVERY and to the offset of GROUP BY time, in the statement's zone.
//
// InfluxDB leaves out the windows that ended while it was down. Here the end of
// what each query has covered is kept in a small file beside the catalog's, and
// the first run after a start begins there, but at most CatchUp back. A query
// without an entry in the file, a new one, begins with the window that has
// ended last.
//
// # What holds
//
//   - The file is replaced atomically after a run, so a run may happen twice but
//     none is left out; a run twice writes the same points.
//   - A run that fails is tried again at the next Interval, its range extended to
//     what has ended since; a query that cannot run at all (it does not parse,
//     has no aggregate) is logged once and left alone until it changes.
//   - Execute is called by one goroutine, and its context ends with Close.
//
// EXECUTE CONTINUOUS QUERY is a statement of package query: it neither asks nor
// changes what is kept here. The package does not decide who may make queries, and
// knows nothing of storage: the executor normalizes and runs the statements.
package continuous
