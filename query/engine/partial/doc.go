// Package partial folds rows into partial aggregates. A Plan names the columns and
// the Slots, each one partial aggregate of one column: a count, a sum, a minimum, the
// distinct values, the n largest, and so on. A Worker folds the chunks of a set of
// series into a Table, which holds a State for each slot, window and group.
//
// If a chunk lies within one window, its statistics answer a slot and no values are
// decoded. If a chunk spans several windows, the Worker splits it once (cut), and
// each slot folds its column over all parts.
//
// # Guarantees
//
//   - A State does not depend on the chunk layout or on statistics. Float sums are
//     compensated. Ties are decided by value and series key.
//   - Tables that were folded from disjoint rows merge into the table of all rows.
//
// A Table belongs to one goroutine at a time.
package partial
