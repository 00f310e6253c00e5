// Package query executes InfluxQL: it turns SELECT into plans and runs them
// over column batches, and carries out the statements that show or change the
// catalog.
//
// An Executor takes a parsed query and runs its statements in order; answers
// leave as Results, tables of typed columns, as soon as they are known.
//
// # SELECT
//
// Select goes this way:
//
//   - compileSelect checks the statement and its subqueries, in the words of
//     InfluxDB 1.12, and resolves their times (compiled).
//   - exec.plan opens a scan.View per database and retention policy, replaces
//     regular expressions and wildcards, gives every reference its type (the
//     widest of all shards in range), and lays out a level per SELECT with the
//     operators that its select list needs.
//   - exec.run executes a level and hands out frames: runs of rows of one
//     series, series in the order of measurement and group values, rows in order
//     of time. The outermost level's frames become Results, or rows to write for
//     INTO; those of a subquery are the rows its outer level reads.
//
// Two operators go to storage. A reader hands out the rows of a group: the rows of
// its series, filtered as vectors and merged by time. How it reads a shard is its
// own choice (strategy); where only the first rows are wanted, a walk over index
// entries finds the series that have them (frontier). A folder reads its columns
// once for all calls that partial states answer (aggPlan, aggTable), from
// statistics alone where a chunk lies inside one window. Both also take the rows of
// subqueries. The cells of the calls are filled, transformed, joined on their times,
// and the select list is evaluated over the joined columns.
//
// A chunk that windows cut is cut once (cut); each slot then folds its column over
// all cuts, in package internal/vector where no value is null.
//
// Several workers read disjoint sets of series and own their states; the states
// are merged in the order of the workers. Rows of one output series leave in
// slices, one being read while the one before is emitted (stream).
//
// The statistics of a chunk may decide a predicate before its rows do (decider).
// EXPLAIN asks the open operators of a plan how they would run. EXPLAIN ANALYZE puts
// counting cursors between the operators and storage (profile).
//
// # What InfluxQL has not
//
// Parse hands a text to the grammar of InfluxDB first. Only one that this refuses
// is cut into tokens and looked at for statements (extensions) and clauses
// (clauses) of our own; clauses become InfluxQL, so that the planner knows none of
// them but windows of months and the look-back of fill(previous).
//
// # What holds
//
//   - An answer does not depend on how storage cuts series into chunks, on
//     statistics, or on the number of workers: sums of floats carry what they
//     lost, ties are settled by value and series key.
//   - Rows of equal time stand as InfluxDB's merge of their series leaves them
//     (seriesHeap); those of many series, or read in slices, in the order of the
//     tag sets. internal/testkit/golden lists the recorded cases where we answer otherwise
//     than InfluxDB 1.12, with the reason.
//   - Empty windows that a LIMIT cuts off are never made. Windows, rows and
//     results held at once are bounded by SelectOptions.MemoryBytes.
//   - The end of the context is seen at every chunk, and by whatever works on rows
//     that were read once in 65,536 of them (stopper); nothing is handed out after it.
//   - NaN stays in result columns; the encoder shows it as null. It is no value to an outer
//     query, and INTO does not write it.
//
// # What it does not do
//
// It does not parse InfluxQL itself (github.com/influxdata/influxql does), encode, authorize,
// or know files: storage is what package scan says. Conditions on time under OR
// are intersected, as in InfluxDB. Functions of tags give nothing.
//
// An Executor is safe for concurrent use. A running statement belongs to the
// goroutine that started it; its callbacks are called from that goroutine.
package query
