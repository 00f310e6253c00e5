// Package moves keeps the moves that wait in a shard. It says which series have the rows of
// which others, and under which names fields are read.
//
// A move at sequence Q gives the rows that its sources have below Q to their targets,
// as if the rows were written to the targets at Q. Files and caches that end below Q
// keep the rows under their old series; merges write the rows under the new ones, some
// series at a time. Until then a List has the move, and the Door to files and caches says
// what their rows are called: where those of a series are (Places), which series
// tombstones name (Names, Original), and what a repair calls them (Present).
//
// Pairs, Lists and Doors do not change. They may be used by many goroutines.
package moves
