// Package engine runs SELECT. Select is its entry. Explain and Analyze describe how
// a statement runs.
//
//  1. A plan.Planner makes a Level for each SELECT of the statement.
//  2. A levelRun gives each level its operators (operator) and runs them. A reader
//     returns rows in order of time. A folder folds rows into partial aggregates.
//     Several calls share one operator.
//  3. The values of the calls are filled, transformed, and joined by time. project
//     evaluates the select list over the joined columns and gives frames: runs of
//     rows of one series, ordered by measurement and group values.
//  4. Frames of the outermost level become Results (emitter), or rows to write for
//     INTO. Frames of a subquery are the input of the level around it. A subquery that
//     only passes rows on does not run: the folders around it read its measurements and
//     compute its columns chunk by chunk (levelRun.passes).
//
// A reader reads the rows of one output series in slices: one slice is read while
// the one before is emitted (stream). If only the first rows are wanted, it walks the
// index entries to find the few series that hold them (package read).
//
// # Guarantees
//
//   - A result does not depend on the chunk layout, on statistics, or on the
//     number of workers. Workers read disjoint sets of series, and their states are
//     merged in the order of the workers.
//   - Rows with equal times are in the order of InfluxDB's merge (package rowset).
//     internal/testkit/golden lists each recorded case in which an answer differs
//     from InfluxDB 1.12, with the reason.
//   - Empty windows that LIMIT removes are never created. Options.MemoryBytes
//     bounds the windows, rows, and Results held at a time.
//   - Cancellation is checked at every chunk, and every 65,536 rows in loops over
//     rows already read (admission.Stopper). Nothing is emitted after cancellation.
//   - Result columns may contain NaN, which encoders write as null. An outer query
//     treats NaN as no value, and INTO does not write it.
//
// # Limits of the package
//
// As in InfluxDB, time conditions under OR are intersected, and functions of tags
// return no rows. A statement runs in the goroutine that called Select, and so do
// its callbacks.
package engine
