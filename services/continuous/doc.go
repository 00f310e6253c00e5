// Package continuous runs the continuous queries of the catalog: SELECT INTO over
// each window when it has ended.
//
// Run is a loop that ends with its context. At every Interval the loop visits the queries of
// the catalog. parse makes a plan of each query (query.ContinuousQuery, EVERY, FOR).
// plan.due decides whether a run is due and over which range. The loop adds the
// range to the condition of the statement and calls Execute, one query at a time.
//
// # Runs and their ranges
//
// A query without RESAMPLE runs once per interval of its GROUP BY time, over the
// window that has just ended. EVERY sets the time between runs, and FOR how far back
// a run reaches. A run is one statement over all its windows. Times are aligned to
// EVERY and to the offset of GROUP BY time, in the time zone of the statement.
//
// InfluxDB skips the windows that ended while it was down. This package stores the
// end of what each query has covered in the catalog. The first run after a start, on
// this node or on another, begins there, but at most CatchUp back. A query without it
// is new. It begins with the latest window that has ended.
//
// # Guarantees
//
//   - The catalog is changed after the runs of a visit, by one command of the log. A
//     run may therefore happen twice, which writes the same points, but none is
//     skipped.
//   - A run that fails is tried again, with its range extended to the windows that
//     have ended since. A query that cannot run (it does not parse, or has no
//     aggregate) is logged once and skipped until it changes.
//   - One goroutine calls Execute. Its context is that of Run.
//
// EXECUTE CONTINUOUS QUERY is a statement of package query. It does not use the
// state of this package. The package does not check rights and does not access
// storage: the executor normalizes and runs the statements.
package continuous
