// Package downsample keeps downsamples true: it computes the windows that the store has
// marked as touched (store/touched), and has the log take that they are complete.
//
// Run is a loop that ends with its context. It visits each downsample of the catalog about
// sixty times per window, at least once a minute and at most once a second. A visit takes
// the windows that have ended, reads how far the store has come, computes the windows of a
// measurement, and commits meta.CompleteWindows with that position. Windows of all
// measurements (a back-fill, a dropped shard) come in slices, the earliest first, with
// rests between them.
//
// align brings the rows of the target in line with the source: it reads the rows that
// the target has, runs the aggregates over the source, writes the rows that differ, and
// deletes the rows whose series has none left in the window. So a window that is
// computed again costs reads and few writes, and a crash between any two steps leaves a
// mark that is still there.
//
// # Guarantees
//
//   - A window is complete only after all its rows are stored, from a state of the store
//     that has every entry up to the position. Entries after it leave their mark.
//   - Windows that begin before the end of the latest shard group that expired, and
//     windows older than the target keeps rows, are left as they are.
//   - A window that fails rests, longer each time, and keeps no other one back (failures).
//     A visit that fails is repeated. What it has computed is committed.
//
// One goroutine computes. The package does not access storage but through the executor,
// except for the names of measurements and the number of series.
package downsample
